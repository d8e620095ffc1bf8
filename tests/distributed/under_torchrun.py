"""The program that tests/distributed/test_torchrun.py starts with torchrun."""

import torch
import torch.distributed as dist

from tensorclass import TensorDict


def main() -> None:
    dist.init_process_group("gloo")
    data = TensorDict({"a": torch.full((3,), float(dist.get_rank())), "o": f"of {dist.get_rank()}"})
    if dist.get_rank() == 0:
        data.send(1)
        data.init_remote(1)
    else:
        data.recv(0)
        whole = TensorDict.from_remote_init(0)
        print("received", data["a"].tolist(), data["o"], whole["o"], flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
