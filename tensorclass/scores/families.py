"""Families of metrics beside IFEval. Each is its declarations and nothing else; write yours the same way."""

from __future__ import annotations

from torch import Tensor

from tensorclass import field
from tensorclass.scores.bradley_terry import BradleyTerry
from tensorclass.scores.class_metrics import Accuracy
from tensorclass.scores.metrics import Mean, Ratio, codes, metric
from tensorclass.scores.pass_metrics import PassAtK, PassHatK
from tensorclass.scores.preference_metrics import LengthControlledWinRate
from tensorclass.scores.row_metrics import AUROC, MCC, CalibrationError, MacroF1, Perplexity
from tensorclass.scores.score_data import ScoreData

__all__ = [
    "AlpacaEvalScoreData",
    "BattleScoreData",
    "CalibrationScoreData",
    "ClassificationScoreData",
    "EvalPlusScoreData",
    "ExactMatchScoreData",
    "MultipleChoiceScoreData",
    "PassAtKScoreData",
    "PassHatKScoreData",
    "PerplexityScoreData",
    "PreferenceScoreData",
]


class ExactMatchScoreData(ScoreData):
    """Verdicts by comparison with the expected answer (GSM8K and other tasks with one right answer).

    Attributes:
        exact_match: bool or float ``[prompts]``, 0 to 1; NaN where not scored.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData
        >>> report = ExactMatchScoreData(torch.tensor([True, True, False, False]), batch_size=[4]).aggregate()
        >>> one = report["exact_match"]
        >>> f"{one.value:.2f} [{one.low:.2f}, {one.high:.2f}] {one.interval}"
        '0.50 [0.05, 0.95] adjusted t'
    """

    exact_match: Tensor | None = None


class MultipleChoiceScoreData(ScoreData):
    """Verdicts on the likeliest of several choices.

    Attributes:
        acc: bool or float ``[prompts]``, by the choice's log-likelihood; NaN where not scored.
        acc_norm: bool or float ``[prompts]``, by the log-likelihood over the length of the choice.

    Example:
        >>> import torch
        >>> from tensorclass.scores import MultipleChoiceScoreData
        >>> report = MultipleChoiceScoreData(
        ...     torch.tensor([1.0, 0.0]), torch.tensor([1.0, 1.0]), batch_size=[2]
        ... ).aggregate()
        >>> report["acc"].value.item(), report["acc_norm"].value.item()
        (0.5, 1.0)
    """

    acc: Tensor | None = None
    acc_norm: Tensor | None = None


class PassAtKScoreData(ScoreData):
    """Right samples out of those drawn for each problem (code generation).

    The figures are ``pass@1``, ``pass@5``, ``pass@10``, ``pass@25``, ``pass@50`` and ``pass@100``, as far as the number
    of samples reaches, by the unbiased estimator of Chen et al., 2021 (arXiv 2107.03374). For other k, name them when
    aggregating: ``aggregate(metrics={"num_correct": PassAtK("num_samples", ks=(1, 2, 3))})``.

    Attributes:
        num_samples: integer ``[prompts]``, samples drawn.
        num_correct: integer ``[prompts]``, how many of them passed.

    Example:
        >>> import torch
        >>> from tensorclass.scores import PassAtKScoreData
        >>> report = PassAtKScoreData(torch.tensor([10, 10]), torch.tensor([0, 5]), batch_size=[2]).aggregate()
        >>> {name: round(one.value.item(), 4) for name, one in report.items()}
        {'pass@1': 0.25, 'pass@5': 0.498, 'pass@10': 0.5}
    """

    num_samples: Tensor | None = field(default=None, metadata=metric())
    num_correct: Tensor | None = field(default=None, metadata=metric(PassAtK("num_samples")))


class PassHatKScoreData(ScoreData):
    """Right trials out of several of each task, of an agent that has to succeed every time.

    The figures are ``pass^1``, ``pass^2``, ... up to ``pass^8``, as far as the number of trials reaches: the chance
    that so many trials of a task are all right.

    Attributes:
        num_samples: integer ``[prompts]``, trials of the task.
        num_correct: integer ``[prompts]``, how many of them were right.

    Example:
        >>> import torch
        >>> from tensorclass.scores import PassHatKScoreData
        >>> report = PassHatKScoreData(torch.tensor([3, 3]), torch.tensor([3, 2]), batch_size=[2]).aggregate()
        >>> {name: round(one.value.item(), 4) for name, one in report.items()}
        {'pass^1': 0.8333, 'pass^2': 0.6667, 'pass^3': 0.5}

    Source: Yao et al., 2024, arXiv 2406.12045.
    """

    num_samples: Tensor | None = field(default=None, metadata=metric())
    num_correct: Tensor | None = field(
        default=None, metadata=metric(PassHatK("num_samples", ks=(1, 2, 3, 4, 5, 6, 7, 8)))
    )


class EvalPlusScoreData(ScoreData):
    """Right samples out of those drawn for each problem, by the base tests and with the tests that EvalPlus adds.

    The figures are ``base/pass@1``, ``plus/pass@1`` and so on; see :class:`PassAtKScoreData`.

    Attributes:
        num_samples: integer ``[prompts]``, samples drawn.
        num_correct: integer ``[prompts]``, how many of them passed the base tests.
        num_correct_plus: integer ``[prompts]``, how many passed the base tests and the added ones.

    Example:
        >>> import torch
        >>> from tensorclass.scores import EvalPlusScoreData
        >>> scores = EvalPlusScoreData(torch.tensor([1, 1]), torch.tensor([1, 1]), torch.tensor([1, 0]), batch_size=[2])
        >>> {name: one.value.item() for name, one in scores.aggregate().items()}
        {'base/pass@1': 1.0, 'plus/pass@1': 0.5}

    Source: Liu et al., 2023, "Is Your Code Generated by ChatGPT Really Correct?", arXiv 2305.01210.
    """

    num_samples: Tensor | None = field(default=None, metadata=metric())
    num_correct: Tensor | None = field(default=None, metadata=metric(PassAtK("num_samples", prefix="base/")))
    num_correct_plus: Tensor | None = field(default=None, metadata=metric(PassAtK("num_samples", prefix="plus/")))


class PreferenceScoreData(ScoreData):
    """A judge's preferences between the model and its opponent.

    The figures: ``win_rate``, ``tie_rate`` and ``loss_rate``, shares of all judgements, and ``preference``, in which a
    tie counts as half a win.

    Attributes:
        wins: bool or count ``[prompts]``, or one for each judge ``[prompts, judges]`` (NaN: not judged).
        ties: likewise; None where there are no ties.
        losses: likewise.

    Example:
        >>> import torch
        >>> from tensorclass.scores import PreferenceScoreData
        >>> wins, ties, losses = torch.tensor([[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0]]).bool()
        >>> report = PreferenceScoreData(wins, ties, losses, batch_size=[4]).aggregate()
        >>> report["win_rate"].value.item(), report["preference"].value.item()
        (0.5, 0.625)
    """

    wins: Tensor | None = field(
        default=None,
        metadata=metric(
            Ratio("win_rate", {"wins": 1}, {"wins": 1, "ties": 1, "losses": 1}),
            Ratio("preference", {"wins": 1, "ties": 0.5}, {"wins": 1, "ties": 1, "losses": 1}),
        ),
    )
    ties: Tensor | None = field(
        default=None, metadata=metric(Ratio("tie_rate", {"ties": 1}, {"wins": 1, "ties": 1, "losses": 1}))
    )
    losses: Tensor | None = field(
        default=None, metadata=metric(Ratio("loss_rate", {"losses": 1}, {"wins": 1, "ties": 1, "losses": 1}))
    )


class AlpacaEvalScoreData(ScoreData):
    """A judge's preferences between the answers of a model and of a baseline, with the lengths of the answers.

    The figures: ``win_rate``, the mean preference, also by dataset; ``length_controlled_win_rate``, what it would be if
    both answers were equally long; ``length_adjusted_win_rate`` in its place if there are no difficulties.

    Attributes:
        preference: float ``[prompts]``, 1 where the judge prefers the model, 0 where the baseline, 0.5 for a draw, or a
            probability; NaN where not judged.
        length_difference: float ``[prompts]``, characters of the model's answer less those of the baseline's.
        difficulty: float ``[prompts]``, how easily prompts are won, the same for all models; None leaves the
            term out of the regression.
        dataset: integer ``[prompts]``, the dataset that the prompt is from, as a code.
        datasets: the names of the codes.

    Example:
        >>> import torch
        >>> from tensorclass.scores import AlpacaEvalScoreData
        >>> won, longer = [1, 1, 1, 0, 1, 0, 0, 1], [300, 250, 400, -200, 350, -100, -300, 20]
        >>> scores = AlpacaEvalScoreData(torch.tensor(won).float(), torch.tensor(longer).float(), batch_size=[8])
        >>> {name: round(one.value.item(), 3) for name, one in scores.aggregate().items()}
        {'win_rate': 0.625, 'length_adjusted_win_rate': 0.583}

    Source: Dubois et al., 2024, arXiv 2404.04475.
    """

    preference: Tensor | None = field(
        default=None,
        metadata=metric(
            Mean(name="win_rate", by="dataset"), LengthControlledWinRate("length_difference", "difficulty")
        ),
    )
    length_difference: Tensor | None = field(default=None, metadata=metric())
    difficulty: Tensor | None = field(default=None, metadata=metric())
    dataset: Tensor | None = field(default=None, metadata=codes("datasets", logged=("dataset",)))
    datasets: tuple[str, ...] | None = field(default=None, metadata=metric())


class ClassificationScoreData(ScoreData):
    """Predicted and expected classes.

    The figures: ``accuracy``, ``macro_f1`` and ``mcc``. F1 of one class: ``metrics={"predicted": F1("target")}``.

    Attributes:
        predicted: integer ``[prompts]``; a subclass may declare it as :func:`~tensorclass.scores.codes` with names.
        target: likewise.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ClassificationScoreData
        >>> scores = ClassificationScoreData(torch.tensor([0, 1, 1, 2]), torch.tensor([0, 1, 2, 2]), batch_size=[4])
        >>> {name: round(one.value.item(), 4) for name, one in scores.aggregate().items()}
        {'accuracy': 0.75, 'macro_f1': 0.7778, 'mcc': 0.7}
    """

    predicted: Tensor | None = field(
        default=None, metadata=metric(Accuracy("target"), MacroF1("target"), MCC("target"))
    )
    target: Tensor | None = field(default=None, metadata=metric())


class CalibrationScoreData(ScoreData):
    """Confidences of a model, and whether it was right.

    The figures: ``auroc``, ``ece`` (the expected calibration error) and ``accuracy``.

    Attributes:
        confidence: float ``[prompts]``, 0 to 1.
        correct: bool or 0 and 1, ``[prompts]``.

    Example:
        >>> import torch
        >>> from tensorclass.scores import CalibrationScoreData
        >>> scores = CalibrationScoreData(torch.tensor([0.9, 0.6, 0.7]), torch.tensor([1, 0, 1]), batch_size=[3])
        >>> {name: round(one.value.item(), 4) for name, one in scores.aggregate().items()}
        {'auroc': 1.0, 'ece': 0.3333, 'accuracy': 0.6667}
    """

    confidence: Tensor | None = field(default=None, metadata=metric(AUROC("correct"), CalibrationError("correct")))
    correct: Tensor | None = field(default=None, metadata=metric(Mean(name="accuracy")))


class PerplexityScoreData(ScoreData):
    """Log-likelihoods of texts.

    The figure is ``perplexity``, per unit that is counted.

    Attributes:
        log_likelihood: float ``[prompts]``, the natural logarithm of the likelihood of the text.
        units: integer ``[prompts]``, the number of its tokens, words or bytes.

    Example:
        >>> import torch
        >>> from tensorclass.scores import PerplexityScoreData
        >>> scores = PerplexityScoreData(torch.tensor([-2.0, -4.0]), torch.tensor([1, 2]), batch_size=[2])
        >>> f"{scores.aggregate()['perplexity'].value:.4f}"
        '7.3891'
    """

    log_likelihood: Tensor | None = field(default=None, metadata=metric(Perplexity("units")))
    units: Tensor | None = field(default=None, metadata=metric())


class BattleScoreData(ScoreData):
    """Comparisons of two models at a time, as arenas collect them: a row for each comparison.

    The figure is ``elo``, by model: the ratings of Bradley and Terry (:class:`~tensorclass.scores.BradleyTerry`).

    Attributes:
        model_a: integer ``[prompts]``, the first model, as a code.
        model_b: likewise, the second.
        outcome: float ``[prompts]``, 1 where the first wins, 0 where the second wins, 0.5 for a tie; NaN: not judged.
        models: the names of the codes.

    Example:
        >>> import torch
        >>> from tensorclass.scores import BattleScoreData
        >>> first, second = torch.tensor([0, 0, 1, 1]), torch.tensor([1, 1, 0, 0])
        >>> battles = BattleScoreData(
        ...     first, second, torch.tensor([1.0, 1.0, 1.0, 0.0]), models=("alpha", "beta"), batch_size=[4]
        ... )
        >>> {name: round(one.value.item()) for name, one in battles.aggregate().groups["elo"].items()}
        {'alpha': 1095, 'beta': 905}
    """

    model_a: Tensor | None = field(
        default=None, metadata={**codes("models"), **metric(BradleyTerry("model_b", "outcome"))}
    )
    model_b: Tensor | None = field(default=None, metadata=codes("models"))
    outcome: Tensor | None = field(default=None, metadata=metric())
    models: tuple[str, ...] | None = field(default=None, kw_only=True, metadata=metric())
