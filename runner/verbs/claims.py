"""`claims`: measures what the documents claim, and prints a verdict for each.

A claim is a file in conf/claim/, or any YAML file of that kind. Its cells are run as a sweep's are,
each once, however many claims want it, and with only those trials that some claim rests on.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner import places
from runner.errors import BadInput, nearest
from runner.running import folders
from runner.verbs import Parser

if TYPE_CHECKING:
    from runner.claims.cells import Work
    from runner.claims.verdicts import Claim, Judgement, Lookup, Words
    from runner.records import Record

CLAIMS_FILE = "claims.json"
"""Which claims a folder is about, so that `resume` need not be told again."""

VERDICTS_FILE = "verdicts.json"
PAGE_FILE = "claims.html"

_DEFAULTS = {"measure": "quick", "tracking": "none"}
_GROUPS = ("measure", "device", "tracking")
_FIELDS = ("seed", "resume")

_EPILOG = """\
examples:
  python -m runner claims
      all claims, with measure=quick: some minutes
  python -m runner claims 000-04 001-12
      these, with the evidence: cells, figures, the rule that decided
  python -m runner claims my_claim.yaml
      your own; conf/claim/ has examples of the form, and a file put there gets a name
  python -m runner claims resume=latest
      goes on where the last one stopped; where nothing is missing, judges it anew

Also: measure=standard, device=gpu, seed=1, and fields such as measure.timing_processes=7.
tracking is none unless said, as the cells would be hundreds of runs; `publish PATH` brings them in.
Exit codes: 0 all judged, 1 one could not be judged, 2 bad input, 130 interrupted."""


def main(arguments: Sequence[str]) -> int:
    parser = Parser(
        "claims",
        description="Measures what the documents claim and prints a verdict for each: supported, "
        "refuted, depends, inconclusive. Writes claims.html.",
        epilog=_EPILOG,
    )
    parser.add_argument("word", nargs="*", metavar="WORD", help="an id, a path, KEY=VALUE")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    options = parser.parse_intermixed_args(arguments)

    started = time.monotonic()
    names = [word for word in options.word if "=" not in word]
    settings = _settings([word for word in options.word if "=" in word])
    resume = settings.pop("resume", None)
    asked = _Asked.again(str(resume), names, settings) if resume else _Asked.anew(names, settings)

    from runner.claims.cells import compose

    return _judge(asked, compose([_load(path) for path in asked.paths], asked.settings),
                  options.json, started)  # fmt: skip


@dataclass(frozen=True)
class _Asked:
    """What is to be measured, where, and what of it is to be told in full."""

    folder: Path | None
    """Of an earlier command that is gone on with."""
    paths: Sequence[Path]
    settings: Mapping[str, Any]
    in_full: frozenset[str]
    """Ids of claims; of no claim in particular where it is empty."""

    @staticmethod
    def anew(names: Sequence[str], settings: Mapping[str, Any]) -> _Asked:
        paths = _paths(names)
        ids = frozenset(path.stem for path in paths) if names else frozenset[str]()
        return _Asked(None, paths, {**_DEFAULTS, **settings}, ids)

    @staticmethod
    def again(resume: str, names: Sequence[str], settings: Mapping[str, Any]) -> _Asked:
        """The claims and settings of then. Names choose what of it is told in full."""
        folder = folders.earlier(resume, "claims", CLAIMS_FILE, "run of claims")
        then = folders.kept(
            folder / CLAIMS_FILE,
            {"claims": list[str], "settings": dict[str, Any], "in_full": bool},
        )
        paths = _paths(then["claims"])
        known = [path.stem for path in paths]
        ids = [Path(name).stem for name in names]
        for name in ids:
            if name not in known:
                raise BadInput(f"{name}: was not measured in {resume}.", nearest(name, known))
        in_full = frozenset(ids or (known if then["in_full"] else ()))
        return _Asked(folder, paths, {**then["settings"], **settings}, in_full)

    @property
    def whole(self) -> bool:
        """Whether all claims that have a name are asked for, and no other."""
        return list(self.paths) == _paths([])

    def remember(self, folder: Path) -> None:
        then = {
            "claims": [_command(path) for path in self.paths],
            "settings": dict(self.settings),
            "in_full": bool(self.in_full),
        }
        if not self.folder:
            (folder / CLAIMS_FILE).write_text(json.dumps(then, indent=1))


# What is asked for.


def _settings(words: Sequence[str]) -> dict[str, Any]:
    """What all cells are run with. What they are is the claims' to say."""
    import yaml

    settings: dict[str, Any] = {}
    for word in words:
        key, _, value = word.partition("=")
        if key.partition(".")[0] not in (*_GROUPS, *_FIELDS):
            raise BadInput(
                f"{key}: is not to be set here; a claim says what it runs.",
                nearest(key, (*_GROUPS, *_FIELDS)),
            )
        if key in settings:
            raise BadInput(f"{key}: said twice.", "Keep one.")
        try:
            settings[key] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise BadInput(f"{word}: can't be read.", "Write KEY=VALUE.") from None
    return settings


def _paths(names: Sequence[str]) -> list[Path]:
    """A claim's file is named by its id, or by its path."""
    known = {path.stem: path for path in sorted(_named().glob("*.yaml"))}
    if not names:
        return list(known.values())
    paths = []
    for name in dict.fromkeys(names):
        if name not in known and not Path(name).is_file():
            raise BadInput(f"{name}: there is no claim of that id, and no such file.",
                           nearest(name, known))  # fmt: skip
        paths.append(known.get(name) or Path(name).resolve())
    return paths


def _named() -> Path:
    """Where a claim's file has a name."""
    return places.conf() / "claim"


def _command(path: Path) -> str:
    """What a user says to mean that file."""
    return path.stem if path.parent == _named() else str(path)


def _load(path: Path) -> Claim:
    import yaml

    from runner.claims import files

    where = _spelled(path)
    try:
        content = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise BadInput(f"{where}{line}: is no YAML.", "Correct the file.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{where}: can't be read ({error}).", "Check the file.") from None
    return files.parse(path.stem, content, where)


def _spelled(path: Path) -> str:
    conf = places.conf().parent
    return str(path.relative_to(conf)) if path.is_relative_to(conf) else str(path)


# Running and judging.


def _judge(asked: _Asked, work: Work, as_json: bool, started: float) -> int:
    from runner import records
    from runner.claims import verdicts
    from runner.running import session
    from runner.terminal.progress import Progress

    folder = asked.folder or folders.new_folder("claims")
    folders.make(folder)
    asked.remember(folder)
    with session.measured(work.plan, folder, Progress()) as done:
        result = done.result
    if result.interrupted:
        print(f"runner: {result.interrupted}; what was finished is kept:", file=sys.stderr)
        again = f"resume={places.relative(folder)}"
        print(f"  python -m runner claims {again}", file=sys.stderr)
        return result.exit_code

    @cache
    def record(number: int) -> Record:
        return records.read(folder / str(number))

    lookup: Lookup = lambda words: record(work.number(words))  # noqa: E731
    judgements = [verdicts.judge(claim, lookup) for claim in work.claims]
    if done.publishing.problem:
        print(f"runner: {done.publishing.problem}", file=sys.stderr)
    _show(asked, work, judgements, record(0), folder, as_json, time.monotonic() - started)
    unknown = any(each.verdict is verdicts.Verdict.INCONCLUSIVE for each in judgements)
    return 1 if unknown else 0


def _show(
    asked: _Asked,
    work: Work,
    judgements: Sequence[Judgement],
    one: Record,
    folder: Path,
    as_json: bool,
    seconds: float,
) -> None:
    from runner.claims import verdicts
    from runner.claims import words as claim_words
    from runner.claims.page import claims_page
    from runner.terminal.console import readable_duration

    def cell_of(words: Words) -> Path:
        return folder / str(work.number(words))

    content = [claim_words.to_json(each, cell_of) for each in judgements]
    (folder / VERDICTS_FILE).write_text(json.dumps(content, indent=1, allow_nan=False))
    seen = one.environment.get("comparable", {})
    made_with = (
        f"TensorFlow {seen.get('tensorflow')}, {seen.get('cpu')}, "
        f"measure={one.spec['measure']['name']}, {one.started_at[:10]}"
    )
    page = folder / PAGE_FILE
    commands = {path.stem: _command(path) for path in asked.paths}
    page.write_text(claims_page(_by_document(judgements), made_with, commands, asked.whole))
    others = {each.claim.id: each for each in judgements}
    if asked.in_full:
        judgements = [each for each in judgements if each.claim.id in asked.in_full]
    if as_json:
        ids = {each.claim.id for each in judgements}
        print(json.dumps([each for each in content if each["id"] in ids], indent=1))
        return
    print(made_with)
    for document, ours in _by_document(judgements).items():
        print(f"\n{_styled(document, '1')}")
        for judgement in ours:
            print(*_evidence(judgement, cell_of, others) if asked.in_full else _line(judgement),
                  sep="\n")  # fmt: skip
    if not asked.in_full:
        print(*_contradictions(judgements), sep="\n")
    counts = {verdict: [each.verdict for each in judgements].count(verdict)
              for verdict in verdicts.Verdict}  # fmt: skip
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    print(f"\n{told}; {len(work.plan.cells)} cells in {readable_duration(seconds)}")
    print(f"records in {places.relative(folder)}, page {places.relative(page)}")


def _by_document(judgements: Sequence[Judgement]) -> dict[str, list[Judgement]]:
    documents: dict[str, list[Judgement]] = {}
    for judgement in judgements:
        documents.setdefault(judgement.claim.document, []).append(judgement)
    return documents


def _told(id: str, judged: Mapping[str, Judgement]) -> str:
    """Another claim: what it says, and what came of it if it was judged too."""
    if id in judged:
        return f"{id}, which {_FOUND[judged[id].verdict]}: {judged[id].claim.claim}"
    path = _named() / f"{id}.yaml"
    return f"{id}: {_load(path).claim}" if path.exists() else id


_FOUND = {
    "supported": "is supported",
    "refuted": "is refuted",
    "depends": "depends",
    "inconclusive": "is inconclusive",
}
_COLOURS = {"supported": "32", "refuted": "31", "depends": "33", "inconclusive": "35"}


def _styled(text: str, code: str) -> str:
    from runner.terminal.console import styled

    return styled(text, code, sys.stdout)


def _verdict(judgement: Judgement) -> str:
    return _styled(f"{judgement.verdict:<12}", _COLOURS[judgement.verdict])


def _line(judgement: Judgement) -> list[str]:
    from runner.claims.words import decisive

    claim = judgement.claim
    return [f"{claim.id}  {_verdict(judgement)}  {claim.claim}: {decisive(judgement)}"]


def _contradictions(judgements: Sequence[Judgement]) -> list[str]:
    from runner.claims.words import contradictions

    pairs = contradictions(judgements)
    lines = ["", _styled("What one place says and another contradicts", "1")] if pairs else []
    for one, other in pairs:
        lines.append(f"{one.claim.id}  {_verdict(one)}  {one.claim.claim}")
        lines.append(f"  against {_told(other.claim.id, {other.claim.id: other})}")
    return lines


def _evidence(
    judgement: Judgement, cell_of: Callable[[Words], Path], others: Mapping[str, Judgement]
) -> list[str]:
    """Each case: its cells, what was expected and why, what was found."""
    from runner.claims import verdicts
    from runner.claims import words as claim_words

    claim = judgement.claim
    lines = [f"{claim.id}  {_verdict(judgement)}  {claim.claim}"]
    for judged in judgement.cases:
        case = judged.case
        lines.append(f"  {case.when}: {claim_words.holding(judged)}")
        lines.append(f"    run      {_words(case.run)}")
        if case.against:
            lines.append(f"    against  {_words(case.against)}")
        for tested in judged.tested:
            lines.append(f"    expected {tested.expectation.rule()}")
            if tested.expectation.because:
                lines.append(f"             ({tested.expectation.because})")
            lines.append(f"    found    {claim_words.figures_of(tested, case)}")
        first, *more = (cell_of(words) for words in case.cells)
        names = ", ".join([places.relative(first), *(cell.name for cell in more)])
        lines.append(f"    cells    {names}")
    if judgement.verdict is verdicts.Verdict.DEPENDS:
        lines.append(f"  so it depends: {claim_words.condition(judgement)}")
    if judgement.advice:
        lines.append(f"  instead: {judgement.advice}")
    for other in claim.contradicts:
        lines.append(f"  contradicts {_told(other, others)}")
    return [*lines, ""]


def _words(words: Words) -> str:
    from runner.judging.selection import word

    return " ".join(f"{key}={word(value)}" for key, value in words.items())
