"""Make the two synthetic sample runs in ``examples/data``: invented prompts, responses and verdicts of no real model.

The runs hold the same 120 prompts. ``synthetic-alpha`` is written as IFEval's reference scorer writes results (a strict
and a loose file), ``synthetic-beta`` as lm-evaluation-harness writes sample logs. The same files come out on every
machine.

    python examples/make_samples.py [FOLDER]
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from pathlib import Path
from typing import Any

PROMPTS = 120

TOPICS = (
    "a lighthouse keeper", "a city of glass", "the last train home", "an orchard in autumn", "a slow clock",
    "two rival bakers", "a letter from the sea", "the history of salt", "a robot that gardens", "a quiet library",
    "a bridge between islands", "the invention of the kite", "a market at dawn", "a lost umbrella", "the colour blue",
)  # fmt: skip
FORMS = ("a story", "a poem", "an essay", "a product description", "a speech", "a diary entry", "a short dialogue")

# Each type: how a prompt asks for it, and how often synthetic-alpha follows it. synthetic-beta differs by GAINS.
INSTRUCTIONS: dict[str, tuple[str, float]] = {
    "change_case:capital_word_frequency": ("Use words in all capital letters at least 4 times.", 0.75),
    "change_case:english_capital": ("Your entire response should be in English and in all capital letters.", 0.80),
    "change_case:english_lowercase": ("Use only lowercase letters.", 0.86),
    "combination:repeat_prompt": ("First repeat the request word for word, then answer it.", 0.55),
    "combination:two_responses": ("Give two different responses, separated by 6 asterisks.", 0.82),
    "detectable_content:number_placeholders": ("Include at least 3 placeholders in square brackets.", 0.88),
    "detectable_content:postscript": ("At the end, add a postscript starting with P.S.", 0.93),
    "detectable_format:constrained_response": ("Answer with one of: yes, no, maybe.", 0.90),
    "detectable_format:json_format": ("Wrap the entire output in JSON format.", 0.78),
    "detectable_format:multiple_sections": ("Use 3 sections, each beginning with SECTION X.", 0.84),
    "detectable_format:number_bullet_lists": ("Your answer must contain exactly 4 bullet points.", 0.72),
    "detectable_format:number_highlighted_sections": ("Highlight at least 2 sections with markdown.", 0.90),
    "detectable_format:title": ("Give it a title wrapped in double angular brackets.", 0.95),
    "keywords:existence": ("Include the keywords harbour and lantern.", 0.94),
    "keywords:forbidden_words": ("Do not use the words very and really.", 0.78),
    "keywords:frequency": ("Use the word river at least 3 times.", 0.80),
    "keywords:letter_frequency": ("The letter q should appear at least 5 times.", 0.56),
    "language:response_language": ("Answer entirely in Portuguese.", 0.91),
    "length_constraints:nth_paragraph_first_word": ("The second paragraph must start with the word however.", 0.62),
    "length_constraints:number_paragraphs": ("There should be exactly 4 paragraphs, separated by ***.", 0.66),
    "length_constraints:number_sentences": ("Use fewer than 12 sentences.", 0.70),
    "length_constraints:number_words": ("Answer with at least 250 words.", 0.64),
    "punctuation:no_comma": ("Do not use any commas.", 0.74),
    "startend:end_checker": ("Finish with the exact phrase: that is all.", 0.85),
    "startend:quotation": ("Wrap your entire response in double quotation marks.", 0.92),
}
GAINS = {
    "length_constraints": 0.22,
    "combination": 0.22,
    "keywords": 0.12,
    "punctuation": 0.15,
    "change_case": -0.06,
    "startend": -0.08,
}


def prompts(rng: random.Random) -> list[dict[str, Any]]:
    """The prompts: text and instruction types, 1 to 3 a prompt."""
    types = list(INSTRUCTIONS)
    made: list[dict[str, Any]] = []
    for number in range(PROMPTS):
        share = rng.random()
        count = 1 if share < 0.55 else 2 if share < 0.85 else 3
        # The types take turns, so that each occurs; the others are drawn.
        chosen = [types[number % len(types)]]
        while len(chosen) < count:
            other = types[int(rng.random() * len(types))]
            if other not in chosen:
                chosen.append(other)
        topic, form = TOPICS[int(rng.random() * len(TOPICS))], FORMS[int(rng.random() * len(FORMS))]
        text = f"Write {form} about {topic} (synthetic prompt {number}). " + " ".join(
            INSTRUCTIONS[one][0] for one in chosen
        )
        made.append({"key": 1000 + number, "prompt": text, "instruction_id_list": chosen, "hard": rng.random()})
    return made


def verdicts(rng: random.Random, prompt: dict[str, Any], gains: dict[str, float]) -> tuple[list[bool], list[bool]]:
    """Strict and loose verdicts on a prompt's instructions; what is followed strictly is followed loosely."""
    strict, loose = [], []
    for name in prompt["instruction_id_list"]:
        chance = INSTRUCTIONS[name][1] + gains.get(name.partition(":")[0], 0.0) + 0.4 * (0.35 - prompt["hard"])
        strict.append(rng.random() < chance)
        loose.append(strict[-1] or rng.random() < 0.3)
    return strict, loose


def write_reference(
    folder: Path, name: str, made: list[dict[str, Any]], results: list[tuple[list[bool], list[bool]]]
) -> None:
    """Two files as IFEval's reference scorer writes them."""
    for place, level in enumerate(("strict", "loose")):
        rows = (
            {
                "follow_all_instructions": all(result[place]),
                "follow_instruction_list": result[place],
                "instruction_id_list": prompt["instruction_id_list"],
                "prompt": prompt["prompt"],
                "response": f"[synthetic response of {name}]",
            }
            for prompt, result in zip(made, results, strict=True)
        )
        write(folder / f"{name}.eval_results_{level}.jsonl", rows)


def write_lm_eval(
    folder: Path, name: str, made: list[dict[str, Any]], results: list[tuple[list[bool], list[bool]]]
) -> None:
    """One file as lm-evaluation-harness writes sample logs."""
    rows = []
    for number, (prompt, (strict, loose)) in enumerate(zip(made, results, strict=True)):
        doc = {key: prompt[key] for key in ("key", "prompt", "instruction_id_list")}
        doc["kwargs"] = [{} for _ in strict]
        response = f"[synthetic response of {name}]"
        rows.append(
            {
                "doc_id": number,
                "doc": doc,
                "target": 0,
                "arguments": {"gen_args_0": {"arg_0": prompt["prompt"], "arg_1": {"until": [], "max_gen_toks": 1280}}},
                "resps": [[response]],
                "filtered_resps": [response],
                "filter": "none",
                "metrics": [
                    "prompt_level_strict_acc",
                    "inst_level_strict_acc",
                    "prompt_level_loose_acc",
                    "inst_level_loose_acc",
                ],
                "doc_hash": digest(json.dumps(doc)),
                "prompt_hash": digest(prompt["prompt"]),
                "target_hash": digest("0"),
                "prompt_level_strict_acc": all(strict),
                "inst_level_strict_acc": strict,
                "prompt_level_loose_acc": all(loose),
                "inst_level_loose_acc": loose,
            }
        )
    write(folder / f"{name}.jsonl", rows)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def write(path: Path, rows: Any) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8", newline="\n")
    print(path)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "data"
    folder.mkdir(parents=True, exist_ok=True)
    # Only random() is drawn from: its numbers are the same in every version of Python.
    rng = random.Random(2026)
    made = prompts(rng)
    write_reference(folder, "synthetic-alpha", made, [verdicts(rng, prompt, {}) for prompt in made])
    write_lm_eval(folder, "synthetic-beta", made, [verdicts(rng, prompt, GAINS) for prompt in made])


if __name__ == "__main__":
    main()
