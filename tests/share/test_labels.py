"""Labels: the grammar, what a label means among others, and what is said of one that means none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusing import refused
from stackproof.core.errors import Reason, StackproofError
from stackproof.share import labels
from stackproof.share.labels import Label, LabelRecord


def record(text: str, number: int = 1, date: str = "2026-01-01 00:00:00") -> LabelRecord:
    digest = f"{number:064x}"
    return LabelRecord(
        label=labels.parse(text), date=date, size=1000, digest=digest, folder=f"/r/images/{digest}"
    )


RECORDS = (
    record("mpich/4.3:v1@daint%zen2", 1, "2025-01-01 00:00:00"),
    record("mpich/5.0.2:v1@daint%zen2", 0xA2, "2026-03-01 00:00:00"),
    record("mpich/5.0.2:stable@daint%zen2", 0xA2, "2026-03-01 00:00:00"),
    record("mpich/5.0.2:v1@eiger%zen2", 3, "2026-02-01 00:00:00"),
    record("openmpi/5.0.10:v1@eiger%zen3", 4, "2026-01-01 00:00:00"),
)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a", {"name": "a"}),
        ("a/1", {"name": "a", "version": "1"}),
        ("a:v1", {"name": "a", "tag": "v1"}),
        ("prgenv-gnu/24.11:v1@daint%gh200",
         {"name": "prgenv-gnu", "version": "24.11", "tag": "v1", "system": "daint", "uarch": "gh200"}),
        ("a%zen2@*", {"name": "a", "uarch": "zen2", "system": "*"}),
        ("@daint", {"system": "daint"}),
        ("a" * 128, {"name": "a" * 128}),
        (":v1%zen2", {"tag": "v1", "uarch": "zen2"}),
        ("/24.11", {"version": "24.11"}),
        ("_x/.1"[:2], {"name": "_x"}),
    ],
)  # fmt: skip
def test_labels_are_read_as_uenv_reads_them(text: str, parts: dict[str, str]) -> None:
    assert labels.parse(text) == Label(**parts)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("", 1), ("-a", 1), (".a", 1), ("a/", 3), ("a//b", 3), ("a:", 3), ("a:v1/2", 5), ("a@", 3),
        ("a@x@y", 4), ("a%x%y", 4), ("a@x:v1", 4), ("a b", 2), ("a/1:/x", 5), ("a*", 2), ("a%*", 3),
        ("a@*x", 4), ("ä", 1), ("a\x1b", 2), ("build::a", 7), ("a" * 129, 1), ("a:" + "1" * 5000, 3),
    ],
)  # fmt: skip
def test_what_is_no_label_is_shown_with_its_place(text: str, column: int) -> None:
    with refused(Reason.USAGE) as caught:
        labels.parse(text)
    assert f"at character {column}" in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert not labels.is_label(text)


_parts = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,5}", fullmatch=True)


@given(st.builds(Label, name=_parts, version=_parts, tag=_parts, system=_parts, uarch=_parts))
def test_a_label_reads_back(label: Label) -> None:
    assert labels.parse(str(label)) == label
    assert label.missing == ()
    assert labels.parse(label.short) == Label(name=label.name, version=label.version, tag=label.tag)


@given(st.text(max_size=30))
def test_any_text_is_a_label_or_an_error_of_ours(text: str) -> None:
    if labels.is_label(text):
        assert labels.is_label(str(labels.parse(text)))
    else:
        with pytest.raises(StackproofError):
            labels.parse(text)


def test_parts_that_are_left_out_are_any() -> None:
    def meant(word: str, system: str = "") -> list[str]:
        return [str(one.label) for one in labels.chosen(RECORDS, word, system=system)]

    assert len(meant("mpich")) == 4
    assert len(meant("mpich", system="daint")) == 3
    assert len(meant("mpich@*", system="daint")) == 4
    assert meant("mpich@eiger", system="daint") == ["mpich/5.0.2:v1@eiger%zen2"]
    assert meant("%zen3") == ["openmpi/5.0.10:v1@eiger%zen3"]
    assert meant("mpich/4.3") == ["mpich/4.3:v1@daint%zen2"]
    assert meant("mpic") == []
    assert meant(f"{3:064x}", system="daint") == ["mpich/5.0.2:v1@eiger%zen2"]
    assert len(meant(f"{1:064x}"[:16])) == len(
        RECORDS
    )  # ids are their first digits, all zeros here


def test_a_list_takes_the_beginning_of_a_name_and_an_id_of_one_system() -> None:
    def listed(word: str, system: str = "", *, beginning: bool = True) -> list[str]:
        found = labels.matching(RECORDS, labels.parse(word), system=system, beginning=beginning)
        return [str(one.label) for one in found]

    assert len(listed("mp")) == 4
    assert listed("MP:stable") == ["mpich/5.0.2:stable@daint%zen2"]
    assert len(listed("mp", system="daint")) == 3
    assert len(listed("o")) == 1
    assert listed("mpich/5") == []
    assert listed("mp", beginning=False) == []
    whole = f"{3:064x}"
    assert (
        listed(whole) == listed(f"{whole}@eiger", system="daint") == ["mpich/5.0.2:v1@eiger%zen2"]
    )
    assert listed(f"{whole}@daint") == listed(f"{whole}:v1") == []


def test_one_image_with_several_labels_is_no_ambiguity() -> None:
    found = labels.only(RECORDS, "mpich/5.0.2", system="daint")
    assert found is not None
    assert found.digest == f"{0xA2:064x}"
    assert labels.only(RECORDS, "nothing") is None


def test_several_images_are_all_listed_the_newest_first() -> None:
    with pytest.raises(StackproofError) as caught:
        labels.only(RECORDS, "mpich")
    (problem,) = caught.value.problems
    assert problem.reason is Reason.LABEL_AMBIGUOUS
    dates = [line.split("  ")[-1] for line in (problem.detail or "").splitlines()]
    assert dates == ["2026-03-01 00:00", "2026-03-01 00:00", "2026-02-01 00:00", "2025-01-01 00:00"]
    assert "3 images" in problem.message
    assert "mpich/5.0.2:v1@daint%zen2" in (problem.hint or "")


@pytest.mark.parametrize(
    ("word", "system", "said"),
    [
        ("mpcih", "", "did you mean `mpich`?"),
        ("openmpi/5.0.1:v1", "", "of `openmpi` there is: `openmpi/5.0.10:v1`"),
        ("openmpi", "daint", "this is `daint`, and it is there for others: `openmpi/5.0.10:v1@eiger"),
        ("quite-something-else", "", ""),
        ("no label!", "", ""),
    ],
)  # fmt: skip
def test_what_was_meant(word: str, system: str, said: str) -> None:
    guess = labels.guess(RECORDS, word, system=system)
    assert guess.startswith(said) if said else guess == ""


@pytest.mark.parametrize(
    ("date", "shown"),
    [
        ("2026-03-04 05:06:07", "2026-03-04 05:06"),
        (labels.readable_date("1970-01-01 00:00:00"), "-"),  # as builds make images
        ("1970-01-01 00:00:00", "-"),  # of a registry that an older client wrote
    ],
)
def test_an_image_without_a_time_is_shown_without_one(date: str, shown: str) -> None:
    one = record("mpich/5.0.2:v1@here%zen3", date=date)
    assert labels.date_text(one) == shown
    assert labels.table([one]).endswith(f"  {shown}")
