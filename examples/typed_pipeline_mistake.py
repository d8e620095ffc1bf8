"""The pipeline of typed_pipeline.py with a mistake in it: every type checker reports the line, and so does running it.

python examples/typed_pipeline_mistake.py
"""

from __future__ import annotations

from typed_pipeline import Classify, Scores, Text, tokenize

from tensorclass import Stage


def main() -> None:
    # the classifier takes Features, and gets Tokens: the encoder was forgotten
    pipeline: Stage[Text, Scores] = tokenize >> Classify(8, 3)  # <- the mistake
    print(pipeline)


if __name__ == "__main__":
    main()
