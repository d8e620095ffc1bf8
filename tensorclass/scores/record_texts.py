"""Prompts and responses in a record of scores, for those who want them there."""

from __future__ import annotations

from collections import defaultdict, deque

from tensorclass import Text
from tensorclass.scores.readers import PromptText, Run
from tensorclass.scores.score_data import ScoreData

__all__ = ["with_texts"]


def with_texts(run: Run) -> ScoreData:
    """Return the scores of a run with the texts of its prompts and responses, which are read from its files again.

    Args:
        run: a run that was read from files.

    Returns:
        The scores with ``prompt`` and ``response`` as :class:`~tensorclass.Text`; a row whose text the files don't hold
        is None in them.

    Raises:
        ValueError: the format holds no texts, or the record has no ``prompt_id``.

    Example:
        >>> import json, pathlib, tempfile
        >>> from tensorclass.scores import read_run, with_texts
        >>> rows = [{"task_id": f"HumanEval/{i}", "completion": f"return {i}", "passed": i > 0} for i in range(2)]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "samples.jsonl")
        ...     _ = file.write_text("\\n".join(map(json.dumps, rows)))
        ...     scores = with_texts(read_run(file))
        >>> scores.prompt[0], scores.response[0]
        ('HumanEval/0', 'return 0')
    """
    scores = run.scores
    if run.texts is None:
        raise ValueError(f"{run.name}: expected a run whose files hold texts, got one of format {run.format!r}")
    if scores.prompt_id is None:
        raise ValueError(f"{run.name}: prompt_id: expected the number of each prompt, got None")
    read: defaultdict[int, deque[PromptText]] = defaultdict(deque)
    for one in run.texts():
        read[one.prompt_id].append(one)
    # Rows of one prompt come in the order of the file.
    keys = [int(key) for key in scores.prompt_id.cpu().numpy()]
    rows = [read[key].popleft() if read.get(key) else None for key in keys]
    return scores.replace(
        prompt=Text([None if row is None else row.prompt for row in rows]),
        response=Text([None if row is None else row.response for row in rows]),
    )
