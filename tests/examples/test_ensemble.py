"""The example of an ensemble: members of their own, trained together as they would be alone."""

import torch
from torch.nn import functional as F

from examples import ensemble as example


def test_members_start_apart_and_learn() -> None:
    trained, history = example.train(30)
    assert history[-1] < 0.7 * history[0]
    outputs = trained.outputs(example.make_data())
    assert all(not torch.equal(outputs[0], other) for other in outputs[1:])


def test_a_member_is_trained_as_it_would_be_alone() -> None:
    trained, _ = example.train(5)
    torch.manual_seed(0)
    alone = [example.network() for _ in range(example.MEMBERS)][2]
    optimizer = torch.optim.Adam(alone.parameters(), lr=1e-2)
    data = example.make_data()
    for _ in range(5):
        loss = F.mse_loss(alone(data.x), data.y) / example.MEMBERS  # the mean over the members
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        assert torch.allclose(trained.outputs(data)[2], alone(data.x), atol=1e-5)


def test_the_spread_is_that_of_the_members() -> None:
    trained, _ = example.train(1)
    data = example.make_data()
    found = trained(data)
    assert type(found) is example.Prediction
    assert torch.equal(found.spread, trained.outputs(data).std(0))
    assert found.batch_size == data.batch_size
