"""Scores of language-model evaluations as typed records: read them, index them, aggregate and compare them.

    >>> import torch
    >>> from tensorclass.scores import ExactMatchScoreData
    >>> scores = ExactMatchScoreData(torch.tensor([True, True, False, True]), batch_size=[4])
    >>> scores.aggregate()["exact_match"].value.item()
    0.75

Reading files, tables and plots need the extra: ``pip install 'tensorclass[scores]'``.
"""

from tensorclass.scores.align import align
from tensorclass.scores.bradley_terry import BradleyTerry
from tensorclass.scores.class_metrics import F1, Accuracy
from tensorclass.scores.comparison import compare
from tensorclass.scores.corrections import benjamini_hochberg, holm
from tensorclass.scores.estimate import Difference, Estimate
from tensorclass.scores.families import (
    AlpacaEvalScoreData,
    BattleScoreData,
    CalibrationScoreData,
    ClassificationScoreData,
    EvalPlusScoreData,
    ExactMatchScoreData,
    MultipleChoiceScoreData,
    PassAtKScoreData,
    PassHatKScoreData,
    PerplexityScoreData,
    PreferenceScoreData,
)
from tensorclass.scores.html_report import write_html_report
from tensorclass.scores.ifeval import INSTRUCTION_TYPES, IFEvalScoreData
from tensorclass.scores.intervals import wilson
from tensorclass.scores.leaderboard import Leaderboard, PairedRuns, leaderboard
from tensorclass.scores.length_control import instruction_difficulties, length_controlled_win_rate
from tensorclass.scores.metrics import Mean, Metric, Ratio, codes, metric
from tensorclass.scores.padded_verdicts import ragged
from tensorclass.scores.paired import mcnemar
from tensorclass.scores.pass_metrics import PassAtK, PassHatK
from tensorclass.scores.passatk import pass_at_k, pass_hat_k
from tensorclass.scores.power import PairedDesign, detectable_difference
from tensorclass.scores.preference_metrics import LengthControlledWinRate
from tensorclass.scores.ranking import RankInterval
from tensorclass.scores.readers import (
    FileHead,
    PromptText,
    Published,
    Reader,
    ReadOptions,
    Run,
    read_run,
    read_runs,
    read_scores,
    register_reader,
)
from tensorclass.scores.record_texts import with_texts
from tensorclass.scores.report import Comparison, Report
from tensorclass.scores.row_metrics import (
    AUROC,
    MCC,
    CalibrationError,
    MacroF1,
    MultilabelMacroF1,
    Perplexity,
    Quantile,
    RowMetric,
    Statistic,
    WeightedF1,
)
from tensorclass.scores.score_data import ScoreData
from tensorclass.scores.score_errors import MissingExtraError, ScoreFileError
from tensorclass.scores.score_files import load_scores, save_scores
from tensorclass.scores.tally import Tally
from tensorclass.scores.variance_components import VarianceComponents

__all__ = [
    "AUROC",
    "F1",
    "INSTRUCTION_TYPES",
    "MCC",
    "Accuracy",
    "AlpacaEvalScoreData",
    "BattleScoreData",
    "BradleyTerry",
    "CalibrationError",
    "CalibrationScoreData",
    "ClassificationScoreData",
    "Comparison",
    "Difference",
    "Estimate",
    "EvalPlusScoreData",
    "ExactMatchScoreData",
    "FileHead",
    "IFEvalScoreData",
    "Leaderboard",
    "LengthControlledWinRate",
    "MacroF1",
    "Mean",
    "Metric",
    "MissingExtraError",
    "MultilabelMacroF1",
    "MultipleChoiceScoreData",
    "PairedDesign",
    "PairedRuns",
    "PassAtK",
    "PassAtKScoreData",
    "PassHatK",
    "PassHatKScoreData",
    "Perplexity",
    "PerplexityScoreData",
    "PreferenceScoreData",
    "PromptText",
    "Published",
    "Quantile",
    "RankInterval",
    "Ratio",
    "ReadOptions",
    "Reader",
    "Report",
    "RowMetric",
    "Run",
    "ScoreData",
    "ScoreFileError",
    "Statistic",
    "Tally",
    "VarianceComponents",
    "WeightedF1",
    "align",
    "benjamini_hochberg",
    "codes",
    "compare",
    "detectable_difference",
    "holm",
    "instruction_difficulties",
    "leaderboard",
    "length_controlled_win_rate",
    "load_scores",
    "mcnemar",
    "metric",
    "pass_at_k",
    "pass_hat_k",
    "ragged",
    "read_run",
    "read_runs",
    "read_scores",
    "register_reader",
    "save_scores",
    "wilson",
    "with_texts",
    "write_html_report",
]
