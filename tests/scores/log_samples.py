"""A small run of formats whose logs have a row for each scored answer, as their harnesses write it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["LOG_SAMPLES"]


def _battle(number: int) -> dict[str, Any]:
    return {
        "question_id": f"q{number}",
        "model_a": "alpha",
        "model_b": "beta",
        "winner": ("model_a", "model_b", "tie", "tie (bothbad)")[number % 4],
        "judge": "arena_user_1",
        "conversation_a": [{"role": "user", "content": "hello"}],
        "turn": 1,
        "language": "English",
    }


def _trial(task: int, trial: int) -> dict[str, Any]:
    return {
        "task_id": task,
        "reward": float(trial < task),
        "info": {"task": {"instruction": f"book flight {task}"}, "user_cost": 0.25},
        "traj": [{"role": "user", "content": "hi"}],
        "trial": trial,
    }


def _promptfoo(test: int, provider: str) -> dict[str, Any]:
    passed = test > 0 or provider == "openai:b"
    return {
        "promptIdx": 0,
        "testIdx": test,
        "testCase": {"vars": {"question": f"what is {test}?"}, "assert": [{"type": "equals", "value": "x"}]},
        "provider": {"id": provider, "label": ""},
        "prompt": {"raw": f"answer: what is {test}?", "label": "answer: {{question}}"},
        "vars": {"question": f"what is {test}?"},
        "response": {"output": f"it is {test}", "tokenUsage": {"total": 20, "prompt": 10, "completion": 10}},
        "success": passed,
        "score": 0.75 if passed else 0.25,
        "latencyMs": 500,
        "gradingResult": {"pass": passed, "score": 0.75, "reason": "r", "componentResults": []},
        "cost": 0.002,
    }


_PROVIDERS = ("openai:a", "openai:b")
_RESULTS = [_promptfoo(test, provider) for test in range(3) for provider in _PROVIDERS]

_SPEC = {
    "completion_fns": ["gpt-4"],
    "eval_name": "test-match.s1.simple-v0",
    "base_eval": "test-match",
    "split": "s1",
    "run_config": {"seed": 20220722},
    "run_id": "2305",
}


def _event(number: int, type: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"run_id": "2305", "event_id": number, "sample_id": f"test-match.s1.{number}", "type": type, "data": data}


_EVENTS = [
    {"spec": _SPEC},
    *(
        event
        for n in range(4)
        for event in (
            _event(n, "sampling", {"prompt": [{"role": "user", "content": f"say {n}"}], "sampled": [f"{n}."]}),
            _event(n, "match", {"correct": n > 0, "expected": str(n), "picked": str(n), "sampled": f"{n}."}),
        )
    ),
    {"final_report": {"accuracy": 0.75, "boostrap_std": 0.2}},
]

_REPORT = {
    "total_instances": 5,
    "submitted_instances": 4,
    "completed_instances": 3,
    "resolved_instances": 2,
    "unresolved_instances": 1,
    "empty_patch_instances": 1,
    "error_instances": 0,
    "completed_ids": ["a__a-1", "a__a-2", "b__b-3"],
    "incomplete_ids": ["b__b-5"],
    "empty_patch_ids": ["b__b-4"],
    "submitted_ids": ["a__a-1", "a__a-2", "b__b-3", "b__b-4"],
    "resolved_ids": ["a__a-1", "b__b-3"],
    "unresolved_ids": ["a__a-2"],
    "error_ids": [],
    "schema_version": 2,
}

LOG_SAMPLES: dict[str, Callable[[], dict[str, Any]]] = {
    "arena": lambda: {"battles.json": [_battle(n) for n in range(8)]},
    "arena, CSV": lambda: {
        "train.csv": "id,model_a,model_b,prompt,winner_model_a,winner_model_b,winner_tie\n"
        "1,alpha,beta,p,1,0,0\n2,beta,alpha,q,1,0,0\n3,alpha,beta,r,0,0,1\n"
    },
    "tau_bench": lambda: {"gpt-4o-retail.json": [_trial(task, trial) for task in range(4) for trial in range(3)]},
    "tau_bench, version 2": lambda: {
        "results.json": {
            "timestamp": "2025-06-01",
            "info": {"agent_info": {"llm": "gpt-4.1"}, "environment_info": {"domain_name": "telecom"}},
            "tasks": [{"id": "t1"}],
            "simulations": [
                {"task_id": "t1", "trial": trial, "reward_info": {"reward": float(trial)}, "agent_cost": 0.5}
                for trial in (0, 1)
            ],
        }
    },
    "swe_bench": lambda: {"org__model-1.run7.json": _REPORT},
    "swe_bench, submission": lambda: {
        "results.json": {"no_generation": ["a__a-1"], "generated": ["a__a-2", "a__a-3"], "resolved": ["a__a-3"]}
    },
    "swe_bench, instances": lambda: {
        "report.json": {
            "a__a-1": {"patch_exists": True, "resolved": True, "tests_status": {}},
            "a__a-2": {"patch_exists": True, "resolved": False},
        }
    },
    "promptfoo": lambda: {
        "output.json": {"evalId": "eval-1", "results": {"version": 3, "prompts": [], "results": _RESULTS, "stats": {}}}
    },
    "promptfoo, lines": lambda: {"output.jsonl": _RESULTS},
    "openai_evals": lambda: {"2305_gpt-4.jsonl": _EVENTS},
    "live_code_bench": lambda: {
        "Scenario.codegeneration_3_0.2_eval_all.json": [
            {
                "question_id": str(n),
                "question_content": f"problem {n}",
                "difficulty": "easy",
                "code_list": ["a", "b", "c"],
                "graded_list": [k < n for k in range(3)],
                "pass@1": n / 3,
                "metadata": ["{}"] * 3,
            }
            for n in range(4)
        ]
    },
    "math_harness": lambda: {
        "test_seed0.jsonl": [
            {
                "idx": n,
                "question": f"{n} + 1",
                "gt": "2",
                "code": ["a", "b"],
                "pred": ["1", "2"],
                "score": [False, n > 0],
            }
            for n in range(4)
        ],
        "test_seed0_metrics.json": {"num_samples": 4, "acc": 0.0},
    },
    "mmlu_pro": lambda: {
        "model_outputs.json": [
            {
                "question_id": n,
                "question": "which?",
                "options": ["yes", "no"],
                "answer": "A",
                "answer_index": 0,
                "category": "law" if n < 2 else "math",
                "pred": ("A", "B", None, "A")[n],
                "model_outputs": "The answer is (A).",
            }
            for n in range(4)
        ]
    },
    "wild_bench": lambda: {
        "model.json": [
            {
                "session_id": f"s{n}",
                "parsed_result": {"strengths": "s", "weaknesses": "w", "score": str(5 + n)},
                "model_test": "org/model",
                "score": str(5 + n),
                "model_output": "hello",
            }
            for n in range(3)
        ]
    },
    "figures only": lambda: {
        "results.json": {
            "results": {"arc_easy": {"acc": 0.5, "acc_stderr": 0.01, "acc_norm": 0.75}, "piqa": {"acc": 0.25}},
            "versions": {"arc_easy": 0, "piqa": 0},
            "config": {"model": "hf-causal", "model_args": "pretrained=org/model", "num_fewshot": 0},
        }
    },
    "figures only, bigcode": lambda: {
        "evaluation_results.json": {"humaneval": {"pass@1": 0.25, "pass@10": 0.5}, "config": {"model": "org/coder"}}
    },
    "evalplus, BigCodeBench": lambda: {
        "coder_eval_results.json": {
            "date": "2024-06-01",
            "eval": {
                f"BigCodeBench/{n}": [
                    {"task_id": f"BigCodeBench/{n}", "solution": "s", "status": status, "details": {}}
                ]
                for n, status in enumerate(("pass", "fail", "timeout", "pass"))
            },
        }
    },
}
"""The files of a run of each format, by name. Content is text, a document, or the rows of an array or of lines."""
