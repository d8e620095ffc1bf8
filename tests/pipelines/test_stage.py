"""Typed pipelines at run time; what type checkers say of them is in tests/typing."""

from __future__ import annotations

import copy
import functools
import pickle
import sys
from types import ModuleType
from typing import Any, Generic, TypeVar

import pytest
import torch
from torch import Tensor, nn
from typing_extensions import Self

from tensorclass import Pipeline, Stage, TensorClass, TensorCollection, TensorDict, tensorclass


class Text(TensorClass):
    codes: Tensor


class LongText(Text):
    length: Tensor


@tensorclass
class Tokens:
    ids: Tensor
    source: str = ""


class Scores(TensorClass):
    value: Tensor
    ids: float | Tensor


def tokenize(text: Text) -> Tokens:
    return Tokens(text.codes + 1, batch_size=text.batch_size)  # type: ignore[no-any-return, call-arg, attr-defined]


def halve(tokens: Tokens) -> Tokens:
    return tokens[..., :1]  # type: ignore[no-any-return, index]


class Score(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(2.0))

    def forward(self, tokens: Tokens) -> Scores:
        ids: Any = tokens.ids
        return Scores(ids.float().mean(-1) * self.weight, ids, batch_size=tokens.batch_size)  # type: ignore[attr-defined]


def text() -> Text:
    return Text(torch.ones(2, 3, dtype=torch.int64), batch_size=[2])


# -- one stage --------------------------------------------------------------------------------------------------------


def test_a_stage_calls_its_function() -> None:
    stage = Stage(tokenize)
    assert (stage(text()).ids == 2).all()  # type: ignore[attr-defined]
    assert (stage.input_type, stage.output_type, stage.name) == (Text, Tokens, "tokenize")
    assert stage.stages == (stage,)


def test_a_module_is_a_stage_by_its_forward() -> None:
    module = Score()
    stage = Stage(module)
    assert (stage.input_type, stage.output_type, stage.name) == (Tokens, Scores, "Score")
    assert list(stage.parameters()) == [module.weight]


def test_other_input_is_refused_with_the_fields_that_differ() -> None:
    with pytest.raises(TypeError, match=r"tokenize: expected Text, got Scores; Scores lacks 'codes' \(Tensor\)"):
        Stage(tokenize)(Scores(torch.zeros(2), torch.zeros(2)))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"tokenize: expected Text, got dict$"):
        Stage(tokenize)({})  # type: ignore[arg-type]


def test_a_stage_that_gives_something_else_than_it_declares_is_found_out() -> None:
    def wrong(text: Text) -> Tokens:
        return text  # type: ignore[return-value]

    with pytest.raises(TypeError, match="wrong: declared to give Tokens, gave Text"):
        Stage(wrong)(text())


def test_a_subclass_of_the_declared_class_goes_in() -> None:
    long = LongText(torch.ones(2, 3), torch.zeros(2), batch_size=[2])
    assert Stage(tokenize)(long).batch_size == (2,)  # type: ignore[attr-defined]


def test_what_has_no_annotations_is_declared_between_brackets() -> None:
    stage = Stage[Text, Text](lambda text: text + text)
    assert (stage(text()).codes == 2).all()
    assert (stage.input_type, stage.name) == (Text, "<lambda>")
    assert Stage[Text, Text](lambda text: text, name="same").name == "same"


def test_what_is_not_declared_at_all_is_refused_when_it_is_used() -> None:
    with pytest.raises(TypeError, match="<lambda>: does not say what it takes and gives"):
        Stage(tokenize) >> (lambda tokens: tokens)  # type: ignore[operator]
    with pytest.raises(TypeError, match="does not say what"):
        Stage(lambda text: text)(text())


def test_a_subclass_overrides_forward() -> None:
    class Twice(Stage[Text, Text]):
        def forward(self, record, /):  # type: ignore[no-untyped-def]
            return record + record

    assert (Twice()(text()).codes == 2).all()
    assert Twice().input_type is Text
    with pytest.raises(TypeError, match="Twice: expected Text, got Scores"):
        Twice()(Scores(torch.zeros(2), torch.zeros(2)))

    class Annotated(Stage[Any, Any]):
        def forward(self, record: Text, /) -> Tokens:
            return tokenize(record)

    assert Annotated().output_type is Tokens


def test_a_subclass_without_forward_needs_a_function() -> None:
    class Empty(Stage[Text, Text]):
        pass

    with pytest.raises(TypeError, match="Empty: expected a function or a module; or override forward"):
        Empty()
    assert (Empty(lambda text: text)(text()) == text()).codes.all()


@pytest.mark.parametrize(
    "function, message",
    [
        (3, "expected a function or a module, got int"),
        (lambda: None, "takes one record by position"),
        (lambda first, second: None, "takes one record by position"),
        (lambda first, *, other: None, "takes one record by position"),
    ],
)
def test_what_does_not_take_one_record_is_refused(function: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Stage(function)


def test_a_class_of_modules_is_no_stage() -> None:
    for combine in (lambda: Stage(Score), lambda: Stage(tokenize) >> Score):
        with pytest.raises(TypeError, match=r"Score: expected a module, got its class; instantiate it: Score\("):
            combine()


def test_annotations_that_name_no_records_are_refused() -> None:
    def length(text: Text) -> int:
        return 3

    with pytest.raises(TypeError, match="length: a stage goes from record to record, got int in its annotations"):
        Stage(length)  # type: ignore[type-var]


def test_an_annotation_of_something_undefined_is_named() -> None:
    def lost(text: Text) -> Missing:  # type: ignore[name-defined]
        return text

    with pytest.raises(NameError, match="lost: cannot resolve the annotation 'Missing'"):
        Stage(lost)


def test_annotations_name_classes_of_the_function_around_the_stage() -> None:
    class Local(TensorClass):
        value: Tensor

    @Stage
    def local(record: Local) -> Local:
        return record

    assert local.input_type is Local


def test_unions_and_type_variables_stand_for_their_classes() -> None:
    bound = TypeVar("bound", bound=TensorCollection)

    def same(record: bound) -> bound:
        return record

    def either(record: Text | Tokens) -> Tokens:
        return record  # type: ignore[return-value]

    assert Stage(same).input_type is TensorCollection
    assert Stage(either).input_type == Text | Tokens  # type: ignore[operator]
    assert (Stage(tokenize) >> either).output_type is Tokens
    with pytest.raises(TypeError, match=r"either: expected Text \| Tokens, got TensorDict"):
        Stage(either)(TensorDict({}))  # type: ignore[arg-type]


def test_partials_and_callable_objects_are_stages() -> None:
    def scaled(text: Text, by: float) -> Text:
        return text * by

    class Shift:
        def __call__(self, text: Text) -> Text:
            return text + 1

    stage = Stage(functools.partial(scaled, by=3)) >> Stage(Shift())
    assert (stage(text()).codes == 4).all()
    assert stage.name == "scaled >> Shift"


def test_a_generic_subclass_says_its_types_where_it_is_made() -> None:
    first = TypeVar("first", bound=TensorCollection)
    second = TypeVar("second", bound=TensorCollection)

    class Between(Stage[second, first], Generic[first, second]):
        def forward(self, record, /):  # type: ignore[no-untyped-def]
            return record

    class Same(Between[first, first]):
        pass

    class Texts(Same[Text]):
        pass

    assert Between[Text, Tokens]().input_type is Tokens  # type: ignore[type-var]
    assert Between[Text, Tokens]().output_type is Text  # type: ignore[type-var]
    assert Same[Text]().input_type is Same[Text]().output_type is Text
    assert Texts().input_type is Text
    assert Between().input_type is TensorCollection  # type: ignore[var-annotated]


def test_an_async_function_is_refused() -> None:
    async def later(text: Text) -> Text:
        return text

    class Later(nn.Module):
        async def forward(self, text: Text) -> Text:
            return text

    for function in (later, functools.partial(later), Later()):
        with pytest.raises(TypeError, match="ater: expected a function that returns a record, got an async function"):
            Stage(function)  # type: ignore[arg-type]


def test_self_in_a_method_is_the_class_of_what_it_is_of() -> None:
    class Made(TensorClass):
        codes: Tensor

        @classmethod
        def of(cls, text: Text) -> Self:
            return cls(text.codes)

        def plus(self, other: Self) -> Self:
            return self + other

    assert Stage(Made.of).output_type is Made
    assert Stage(Made(torch.ones(2)).plus).input_type is Made


def test_a_compiled_module_has_the_types_of_its_own() -> None:
    compiled = torch.compile(Score(), backend="eager")
    assert (Stage(tokenize) >> compiled).output_type is Scores  # type: ignore[operator]
    assert Stage(compiled).name == "Score"  # type: ignore[arg-type]
    stage = torch.compile(Stage(tokenize), backend="eager")
    assert (stage >> Stage(Score())).input_type is Text  # type: ignore[operator]


@Stage
def decorated(text: Text) -> Tokens:
    return tokenize(text)


def test_a_decorated_function_can_be_copied_and_pickled() -> None:
    @Stage
    def local(tokens: Tokens) -> Tokens:
        return tokens

    pipeline = decorated >> Score()
    copies = (copy.copy, copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module)))
    for made in (again(pipeline) for again in copies):
        assert (made(text()).value == pipeline(text()).value).all()
    for again in copies:
        assert again(decorated).function is decorated.function
        assert again(decorated).input_type is Text
    assert copy.deepcopy(local).function is local.function
    with pytest.raises((AttributeError, pickle.PicklingError), match="local"):
        pickle.dumps(local)


PROGRAM = """
from tensorclass import Stage
from tests.pipelines.test_stage import Text, Tokens, tokenize

@Stage
def cut(text: Text) -> Tokens:
    return tokenize(text)
"""


def test_a_decorated_function_of_the_program_goes_to_programs_that_lack_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cloudpickle: Any = pytest.importorskip("cloudpickle")
    program, worker = ModuleType("__main__"), ModuleType("__main__")
    exec(PROGRAM, program.__dict__)
    cut: Any = program.cut
    monkeypatch.setitem(sys.modules, "__main__", program)
    sent, plain = cloudpickle.dumps(cut), pickle.dumps(cut)
    assert pickle.loads(plain).function is cut.function
    monkeypatch.setitem(sys.modules, "__main__", worker)
    assert (pickle.loads(sent)(text()).ids == tokenize(text()).ids).all()
    with pytest.raises(AttributeError, match="the module __main__ has no stage cut"):
        pickle.loads(plain)


# -- pipelines --------------------------------------------------------------------------------------------------------


def test_stages_functions_and_modules_make_a_pipeline() -> None:
    score = Score()
    pipeline = Stage(tokenize) >> halve >> score
    assert (pipeline(text()).value == 4).all()
    assert (pipeline.input_type, pipeline.output_type) == (Text, Scores)
    assert [stage.name for stage in pipeline.stages] == ["tokenize", "halve", "Score"]
    assert pipeline.name == "tokenize >> halve >> Score"
    assert list(pipeline.parameters()) == [score.weight]


def test_what_stands_in_front_can_be_a_function_or_a_module() -> None:
    assert (tokenize >> Stage(halve)).name == "tokenize >> halve"
    back = Stage[Scores, Scores](lambda scores: scores, name="back")
    assert (Score() >> back).name == "Score >> back"


def test_a_pipeline_is_the_same_however_it_was_put_together() -> None:
    first, second, third = Stage(tokenize), Stage(halve), Stage(Score())
    assert ((first >> second) >> third).stages == (first >> (second >> third)).stages == (first, second, third)


def test_a_mismatch_names_both_stages_and_the_fields() -> None:
    with pytest.raises(TypeError) as raised:
        Stage(Score()) >> halve  # type: ignore[operator]
    assert str(raised.value) == (
        "Score >> halve: Score gives Scores, halve takes Tokens; Scores lacks 'source' (str), "
        "'ids' is float | Tensor instead of Tensor, 'value' (Tensor) is not a field of Tokens; "
        "put a stage between them that converts one into the other"
    )


def test_a_mismatch_of_classes_with_equal_fields_says_so() -> None:
    class Twin(TensorClass):
        codes: Tensor

    with pytest.raises(TypeError, match="the same fields, but neither derives from the other"):
        Stage[Twin, Twin](lambda record: record) >> tokenize  # type: ignore[operator]


def test_a_more_general_result_does_not_fit() -> None:
    to_long = Stage[LongText, LongText](lambda record: record, name="to_long")
    same = Stage[Text, Text](lambda record: record, name="same")
    assert (to_long >> same).output_type is Text
    with pytest.raises(TypeError, match=r"same >> to_long: same gives Text, .* Text lacks 'length' \(Tensor\)"):
        same >> to_long  # type: ignore[operator]


def test_untyped_collections_have_no_fields_to_compare() -> None:
    untyped = Stage[TensorDict, TensorDict](lambda record: record, name="untyped")
    with pytest.raises(TypeError, match="untyped >> tokenize: untyped gives TensorDict, tokenize takes Text; put a st"):
        untyped >> tokenize  # type: ignore[operator]


def test_what_gives_the_class_that_it_takes_hands_on_what_comes_in() -> None:
    some = TypeVar("some", bound=TensorCollection)

    @Stage
    def same(record: some) -> some:
        return record

    pipeline = Stage(tokenize) >> same >> Score()
    assert (pipeline(text()).value == 4).all()
    assert (Stage(tokenize) >> same).output_type is Tokens
    assert (same >> same).output_type is TensorCollection
    with pytest.raises(TypeError, match="same >> tokenize: same gives Tokens, tokenize takes Text"):
        Stage(tokenize) >> same >> tokenize


def test_generic_records_of_other_classes_do_not_fit() -> None:
    held = TypeVar("held")

    class Box(TensorClass, Generic[held]):
        item: held

    class Codes(Box[Text]):
        pass

    def boxed(text: Text) -> Box[LongText]: ...
    def coded(text: Text) -> Codes: ...
    def unknown(text: Text) -> Box[Any]: ...
    def texts(box: Box[Text]) -> Text: ...
    def scores(box: Box[Scores]) -> Text: ...
    def every(box: Box[held]) -> Text: ...

    for left in (boxed, coded, unknown):
        for right in (texts, every):
            assert (Stage(left) >> right).output_type is Text
    assert (Stage(unknown) >> scores).output_type is Text
    for left in (boxed, coded):
        with pytest.raises(TypeError, match=r">> scores: .* gives .*, scores takes .*Box\[.*Scores\]"):
            Stage(left) >> scores


def test_other_operands_are_refused() -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        Stage(tokenize) >> 3  # type: ignore[operator]
    with pytest.raises(TypeError, match="unsupported operand"):
        3 >> Stage(tokenize)  # type: ignore[operator]


def test_a_pipeline_of_one_stage_and_of_pipelines() -> None:
    one = Pipeline[Text, Tokens](Stage(tokenize))
    assert Pipeline(one, Stage(halve)).name == "tokenize >> halve"


# -- as modules -------------------------------------------------------------------------------------------------------


def test_a_pipeline_shows_its_stages() -> None:
    shown = repr(Stage(tokenize) >> Score())
    assert shown.startswith("Pipeline(\n  Text -> Scores\n  (0): Stage(tokenize: Text -> Tokens)\n  (1): Stage(")


def test_a_pipeline_keeps_its_parameters_through_a_state_dict_a_copy_and_a_pickle() -> None:
    pipeline = Stage(tokenize) >> Score()
    assert list(pipeline.state_dict()) == ["1.function.weight"]
    with torch.no_grad():
        pipeline.stages[1].function.weight.fill_(5)  # type: ignore[union-attr, operator]
    for other in (copy.deepcopy(pipeline), pickle.loads(pickle.dumps(pipeline))):
        assert (other(text()).value == 10).all()
        assert other.input_type is Text


def test_gradients_reach_the_modules_and_hooks_run() -> None:
    score = Score()
    pipeline = Stage(tokenize) >> score
    seen: list[str] = []
    pipeline.register_forward_hook(lambda module, args, result: seen.append(type(result).__name__))
    pipeline(text()).value.sum().backward()
    assert score.weight.grad == 4
    assert seen == ["Scores"]


def test_a_pipeline_compiles_without_a_break() -> None:
    pipeline = Stage(tokenize) >> halve >> Score()
    compiled = torch.compile(pipeline, fullgraph=True, backend="eager")
    assert (compiled(text()).value == pipeline(text()).value).all()
