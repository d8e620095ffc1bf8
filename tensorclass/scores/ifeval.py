"""IFEval: whether a model follows instructions that can be checked by a program.

Source: Zhou et al., 2023, "Instruction-Following Evaluation for Large Language Models", arXiv 2311.07911.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from torch import Tensor

from tensorclass import field
from tensorclass.scores.limits import ROUNDING
from tensorclass.scores.metrics import Mean, Rows, codes, metric
from tensorclass.scores.score_data import ScoreData

__all__ = ["INSTRUCTION_TYPES", "IFEvalScoreData"]

INSTRUCTION_TYPES = (
    "change_case:capital_word_frequency",
    "change_case:english_capital",
    "change_case:english_lowercase",
    "combination:repeat_prompt",
    "combination:two_responses",
    "detectable_content:number_placeholders",
    "detectable_content:postscript",
    "detectable_format:constrained_response",
    "detectable_format:json_format",
    "detectable_format:multiple_sections",
    "detectable_format:number_bullet_lists",
    "detectable_format:number_highlighted_sections",
    "detectable_format:title",
    "keywords:existence",
    "keywords:forbidden_words",
    "keywords:frequency",
    "keywords:letter_frequency",
    "language:response_language",
    "length_constraints:nth_paragraph_first_word",
    "length_constraints:number_paragraphs",
    "length_constraints:number_sentences",
    "length_constraints:number_words",
    "punctuation:no_comma",
    "startend:end_checker",
    "startend:quotation",
)
"""The 25 instruction types of IFEval, of nine categories: the names up to the colon.

Readers give them the codes 0 to 24, and unknown types the codes after them.
"""

_BY_TYPE = Mean(by="instruction_id", separator=":")


class IFEvalScoreData(ScoreData):
    """IFEval's verdicts on a batch of prompts, strict and loose, of the prompts and of their instructions.

    A prompt holds 1 to 3 instructions. Its prompt-level verdict says whether all of them were followed; the
    instruction-level accuracy pools the instructions of all prompts; it is also given for each type of
    instruction and for each category of types. "Loose" verdicts are those after stripping markdown and the first or
    last line of the response.

    Attributes:
        prompt_level_strict_acc: bool ``[prompts]``; None where not scored.
        inst_level_strict_acc: float ``[prompts, instructions]``, 0 or 1, NaN where a prompt has no more instructions
            (:func:`~tensorclass.scores.ragged` makes it from lists); None where not scored. A bool tensor has no
            padding: each of its values counts.
        prompt_level_loose_acc: as the strict one.
        inst_level_loose_acc: as the strict one.
        prompt_id: int64 ``[prompts]``, what runs are paired by; see :class:`~tensorclass.scores.ScoreData`.
        instruction_id: integer ``[prompts, instructions]``, the type of each instruction as a code, -1 for padding.
        instruction_types: the names of the codes.

    Example:
        >>> import torch
        >>> from tensorclass.scores import IFEvalScoreData, ragged
        >>> scores = IFEvalScoreData(
        ...     torch.tensor([True, False]),
        ...     ragged([[True], [True, False]]),
        ...     instruction_id=torch.tensor([[1, -1], [1, 0]]),
        ...     instruction_types=("punctuation:no_comma", "keywords:existence"),
        ...     batch_size=[2],
        ... )
        >>> report = scores.aggregate()
        >>> f"{report['inst_level_strict_acc'].value:.4f}"
        '0.6667'
        >>> by_type = report.groups["inst_level_strict_acc"]
        >>> {name: one.value.item() for name, one in by_type.items()}
        {'keywords': 1.0, 'keywords:existence': 1.0, 'punctuation': 0.0, 'punctuation:no_comma': 0.0}
    """

    prompt_level_strict_acc: Tensor | None = None
    inst_level_strict_acc: Tensor | None = field(default=None, metadata=metric(_BY_TYPE))
    prompt_level_loose_acc: Tensor | None = None
    inst_level_loose_acc: Tensor | None = field(default=None, metadata=metric(_BY_TYPE))
    instruction_id: Tensor | None = field(
        default=None,
        kw_only=True,
        metadata=codes("instruction_types", vocabulary=INSTRUCTION_TYPES, logged=("doc", "instruction_id_list")),
    )
    instruction_types: tuple[str, ...] | None = field(default=None, kw_only=True)

    ragged_width: ClassVar[int] = 3

    @classmethod
    def check_rows(cls, rows: Rows) -> None:
        """Raise an error if a prompt counts as followed although one of its instructions is not.

        The reverse is not an error: a part of the instructions may have been left out.

        Args:
            rows: the fields of one run, prompts in front.

        Raises:
            ValueError: a verdict on a prompt is above the least of its instructions.

        Example:
            >>> import torch
            >>> from tensorclass.scores import IFEvalScoreData
            >>> wrong = IFEvalScoreData(torch.ones(1), torch.zeros(1, 1), batch_size=[1])
            >>> wrong.aggregate()
            Traceback (most recent call last):
            ValueError: prompt_level_strict_acc: expected at most 0, ...
        """
        for level in ("strict", "loose"):
            field = f"prompt_level_{level}_acc"
            every, each = rows.numbers(field), rows.numbers(f"inst_level_{level}_acc")
            if every is None or each is None or each.ndim != every.ndim + 1 or not each.shape[-1]:
                continue
            least = np.where(np.isnan(each), np.inf, each).min(axis=-1)
            wrong = np.argwhere(every > least + ROUNDING)
            if len(wrong):
                place = tuple(int(one) for one in wrong[0])
                raise ValueError(
                    f"{field}: expected at most {least[place]:g}, as inst_level_{level}_acc has an instruction, got "
                    f"{every[place]:g} in row {place[0] if len(place) == 1 else list(place)}; a prompt is followed "
                    "where all of its instructions are"
                )
