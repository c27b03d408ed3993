"""Recipe files from disk: what they inherit, the files that go with them, the site's documents."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from stackproof.build.engines.spack.effects import recipe_files
from stackproof.core.effects import shipped
from stackproof.core.errors import Reason, StackproofError
from stackproof.recipe.composition import compose
from stackproof.recipe.effects import inheritance

DOCUMENTS = Path(__file__).parents[1] / "documents"
FJORD = DOCUMENTS / "stackinator" / "clusters" / "fjord"


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def reason(function, *words) -> Reason:
    with pytest.raises(StackproofError) as caught:
        function(*words)
    return caught.value.reason


def test_the_base_comes_first(tmp_path):
    write(tmp_path, {
        "a.yaml": "inherit: parts/b.yaml\nname: a\n", "parts/b.yaml": "inherit: c.yaml\n",
        "parts/c.yaml": "name: c\n",
    })  # fmt: skip
    chain = inheritance.load_chain(str(tmp_path / "a.yaml"))
    assert [Path(one.file).name for one in chain] == ["c.yaml", "b.yaml", "a.yaml"]


def test_a_shipped_recipe_is_inherited_by_its_name(tmp_path):
    recipe = write(tmp_path, {"a.yaml": "inherit: spack/openmpi\nname: a\n"}) / "a.yaml"
    chain = inheritance.load_chain(str(recipe))
    ours = shipped.root("recipes")
    assert Path(chain[-2].file) == ours / "spack" / "openmpi.yaml"
    assert Path(chain[0].file).parent == ours / "spack"
    folder, _ = recipe_files.load_files(compose(chain, {}, {}), chain)
    assert {"a.yaml", "shipped/spack/openmpi.yaml"} <= set(folder.files)
    assert not any(name.startswith(("/", "../")) for name in folder.files)
    write(tmp_path, {"spack/openmpi": "name: own\n"})
    own, _ = inheritance.load_chain(str(recipe))
    assert Path(own.file) == tmp_path / "spack" / "openmpi"


def test_a_name_that_no_recipe_has(tmp_path):
    recipe = write(tmp_path, {"a.yaml": "inherit: spack/openmpj\n"}) / "a.yaml"
    with pytest.raises(StackproofError) as caught:
        inheritance.load_chain(str(recipe))
    (problem,) = caught.value.problems
    assert problem.reason is Reason.FILE_MISSING
    assert "recipe ls" in (problem.hint or "")
    assert str(problem.where).endswith("a.yaml:1:10")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"a.yaml": "inherit: a.yaml\n"}, Reason.INVALID_VALUE),
        ({"a.yaml": "inherit: b.yaml\n", "b.yaml": "inherit: ./a.yaml\n"}, Reason.INVALID_VALUE),
        ({"a.yaml": "inherit: none.yaml\n"}, Reason.FILE_MISSING),
        ({"a.yaml": "inherit: ../b.yaml\n"}, Reason.INVALID_VALUE),
        ({"a.yaml": "inherit: /etc/passwd\n"}, Reason.INVALID_VALUE),
        ({"a.yaml": "inherit: ''\n"}, Reason.INVALID_VALUE),
        ({"a.yaml": "inherit: d\n", "d/x": ""}, Reason.INVALID_VALUE),
        ({"a.yaml": "inherit: b.yaml\n", "b.yaml": "{"}, Reason.YAML_SYNTAX),
        ({f"{n}.yaml": f"inherit: {n + 1}.yaml\n" for n in range(20)} | {"a.yaml": "inherit: 0.yaml\n"},
         Reason.INVALID_VALUE),
    ],
)  # fmt: skip
def test_what_cannot_be_inherited(tmp_path, files, expected):
    write(tmp_path, files)
    assert reason(inheritance.load_chain, str(tmp_path / "a.yaml")) is expected


def test_a_link_that_leaves_is_not_inherited(tmp_path):
    write(tmp_path, {"own/a.yaml": "inherit: b.yaml\n", "b.yaml": "name: b\n"})
    (tmp_path / "own" / "b.yaml").symlink_to("../b.yaml")
    assert reason(inheritance.load_chain, str(tmp_path / "own" / "a.yaml")) is Reason.INVALID_VALUE
    (tmp_path / ".git").mkdir()
    assert len(inheritance.load_chain(str(tmp_path / "own" / "a.yaml"))) == 2


def files_of(folder: Path, text: str):
    (folder / "a.yaml").write_text(text)
    chain = inheritance.load_chain(str(folder / "a.yaml"))
    return recipe_files.load_files(compose(chain, {}, {}), chain)


def test_all_files_that_go_with_a_recipe(tmp_path):
    write(tmp_path, {"b.yaml": "name: b\n", "hook.sh": "echo\n", "packages/packages/x/package.py": "x",
                     "more/deep/y": "y", "notes/n": "n", "z": "z"})  # fmt: skip
    text = (
        "inherit: b.yaml\nrepo: packages\nextra: more\nfiles: {docs: notes, a/z: z}\n"
        "hooks: {pre-install: 'echo now', post-install: {file: hook.sh}}\n"
    )
    folder, blobs = files_of(tmp_path, text)
    assert set(folder.files) == {
        "a.yaml", "b.yaml", "repo/packages/x/package.py", "extra/deep/y", "docs/n", "a/z",
        "post-install",
    }  # fmt: skip
    assert folder.texts["pre-install"] == b"echo now"
    assert folder.texts["post-install"] == b"echo\n"
    assert folder.place("post-install").endswith("hook.sh")
    for entry in folder.files.values():
        content = blobs[entry.sha256].read_bytes()
        assert hashlib.sha256(content).hexdigest() == entry.sha256


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("repo: nothing", Reason.FILE_MISSING),
        ("files: {a: nothing}", Reason.FILE_MISSING),
        ("hooks: {pre-install: {file: nothing}}", Reason.FILE_MISSING),
        ("repo: file", Reason.FILE_MISSING),
        ("repo: ../repo", Reason.INVALID_VALUE),
        ('repo: "a\\u0007"', Reason.INVALID_VALUE),
        ("extra: /etc", Reason.INVALID_VALUE),
        ("files: {x: ../../etc/passwd}", Reason.INVALID_VALUE),
        ("files: {repo/x: file}", Reason.INVALID_VALUE),
        ("files: {../a: file}", Reason.INVALID_VALUE),
        ("hooks: {pre-install: {file: ../hook}}", Reason.INVALID_VALUE),
    ],
)
def test_files_that_are_not_there_or_may_not_be_named(tmp_path, line, expected):
    write(tmp_path, {"own/file": "", "repo/packages/x/package.py": "", "hook": ""})
    with pytest.raises(StackproofError) as caught:
        files_of(tmp_path / "own", f"name: a\n{line}\n")
    (problem,) = caught.value.problems
    assert (problem.reason, problem.where.line) == (expected, 2)


def test_all_of_them_at_once(tmp_path):
    with pytest.raises(StackproofError) as caught:
        files_of(tmp_path, "repo: a\nextra: b\nfiles: {x: c}\n")
    assert [p.where.line for p in caught.value.problems] == [1, 2, 3]


def test_places_of_a_cluster_a_file_and_this_machine(tmp_path):
    place = recipe_files.load_place(str(FJORD))
    assert place.facts["site"] == "fjord"
    assert place.blobs
    site = (DOCUMENTS / "spack" / "fjord.yaml").read_text()
    (tmp_path / "site.yaml").write_text(site)
    place = recipe_files.load_place(str(tmp_path / "site.yaml"))
    assert place.facts["microarchitecture"] == "neoverse_v2"
    assert "openmpi" in place.cluster.mpis


def test_a_site_file_that_names_the_cluster_configuration(tmp_path):
    text = (DOCUMENTS / "spack" / "fjord.yaml").read_text()
    start, _, rest = text.partition("spack:\n")
    _, _, rest = rest.partition("sources:\n")
    (tmp_path / "site.yaml").write_text(
        f"{start}spack: {{cluster-config: clusters/fjord}}\nsources:\n{rest}"
    )
    shutil.copytree(FJORD, tmp_path / "clusters" / "fjord")
    shutil.copytree(DOCUMENTS / "stackinator" / "site", tmp_path / "site")
    site = str(tmp_path / "site.yaml")
    place = recipe_files.load_place(site)
    assert place.folder == str(tmp_path / "clusters" / "fjord")
    assert place.facts["site"] == "fjord-gpu"
    assert "fjord-mpi" in place.cluster.mpis
    documents = recipe_files.load_site_documents(site)
    assert set(documents) == {"site", "packages.yaml", "network.yaml", "repos.yaml"}


def test_documents_of_a_cluster_and_of_a_machine_that_says_nothing():
    found = recipe_files.load_site_documents(str(FJORD))
    assert set(found) == {"packages.yaml", "network.yaml", "repos.yaml"}
    here = recipe_files.load_site_documents(None)
    assert here["packages.yaml"].file == "this machine"
    assert set(recipe_files.load_site_documents("alps-zen2")) == {"site"}
    assert recipe_files.load_place("alps-zen2").folder is None
