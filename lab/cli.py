"""The command `training-lab`: open the page, run, inspect."""

import argparse
import contextlib
import functools
import os
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from lab import cache, files, grid, processes
from lab.headline import headline
from lab.key import SettingsError, require, shown
from lab.meeting import Team
from lab.settings import GROUPS, KEYS, Settings, about_key, split_words


class Parser(argparse.ArgumentParser):
    """An argument parser that refuses in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


DERIVED = {
    "batch_size": "everything typed for scalar and hand, at most the rows that train for table",
    "microbatches": "the number of groups for hand",
}
"""Defaults that follow from what was typed."""


def keys_help() -> str:
    """Every key with its legal values and default, for `--help`."""
    lines = ["settings (KEY=VALUE):"]
    for group in GROUPS:
        lines.append(f"\n  {group}")
        for name in KEYS:
            about = about_key(name)
            if about.group != group:
                continue
            default = str(about.default) or "empty"
            if about.by_task:
                default += " (" + ", ".join(f"{value} for {task}" for task, value in about.by_task.items()) + ")"
            if name in DERIVED:
                default += f"; {DERIVED[name]}"
            lines.append(f"    {name}")
            limits = about.legal("")
            if about.high_by_task:
                limits = "; ".join(f"{about.legal(task)} for {task}" for task in about.high_by_task)
            for text in (about.help, f"values: {limits}", f"default: {default}"):
                lines += textwrap.wrap(text, 96, initial_indent=" " * 8, subsequent_indent=" " * 8)
    return "\n".join(lines)


def parser() -> Parser:
    """The parser of the whole command."""
    main = Parser(prog="training-lab", description="A visual laboratory for training loops; opens in the browser.")
    main.add_argument("--port", type=int, help="port of the page; the default is the first free one from 8501 on")
    main.add_argument("--no-browser", action="store_true", help="serve the page without opening a browser")
    main.add_argument("--task", dest="own", metavar="FILE", help="a Python file with a task of your own, to open on")
    commands = main.add_subparsers(dest="command", metavar="{run,inspect,bench}")
    for name, text in (("run", "train and tell"), ("inspect", "open one update of a run")):
        command = commands.add_parser(
            name, help=text, description=f"{text.capitalize()}.", epilog=keys_help(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        command.add_argument("words", nargs="*", metavar="KEY=VALUE", help="a setting, see below")
        command.add_argument("--task", metavar="FILE", help="a Python file with a task of your own")
        command.add_argument("--settings", metavar="FILE", help="a TOML or JSON file of settings; words overrule it")
        command.add_argument("--json", metavar="FILE", help="write everything as JSON; - is standard output")
        if name == "run":
            command.add_argument("--csv", metavar="FILE", help="write the columns as CSV; - is standard output")
            command.add_argument(
                "--against", nargs="+", metavar="KEY=VALUE", help="train these settings too, in step, and compare"
            )
            processes.add_options(command)
        else:
            command.add_argument("--step", type=int, required=True, help="which update, from 0")
    grid.add_options(commands)
    return main


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status: 0, or 2 for bad input."""
    line = parser()
    given, rest = line.parse_known_args(arguments)
    if given.command == "bench":
        cache.do_without()
    else:
        cache.remember()
    if hasattr(given, "words") and not any(word.startswith("-") for word in rest):
        given.words += rest
    elif rest:
        line.error(f"unrecognized arguments: {' '.join(rest)}")
    try:
        if given.command == "run":
            return run(given)
        if given.command == "inspect":
            return inspect(given)
        if given.command == "bench":
            return bench(given)
        return serve(given)
    except SettingsError as refusal:
        return refuse(str(refusal))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("\ntraining-lab: interrupted", file=sys.stderr)
        return 130


def refuse(sentence: str) -> int:
    """Say why not, on standard error."""
    print(f"training-lab: {sentence}", file=sys.stderr)
    return 2


def read_settings(given: argparse.Namespace) -> Settings:
    """The settings of a command: the file's, overruled by the words; a task of one's own is loaded."""
    words = [*given.words, *own_task(given.task, given.words)]
    if given.settings is not None:
        return files.read(given.settings, words)
    return files.from_words(words)


def own_task(path: str | None, words: Sequence[str] = ()) -> list[str]:
    """The words that choose the task in a Python file, which is loaded; none where there is no file."""
    if path is None:
        return []
    from lab.user_file import aside, read_task

    for word in words:
        require(
            word.partition("=")[0] not in ("task", "file"),
            f"--task {shown(path)} and {shown(word)}: choose the task once; leave one of them out",
        )
    require(bool(path), "--task: names no file; give a Python file")
    with aside():
        return ["task=file", f"file={read_task(path)}"]


def quietly(given: argparse.Namespace) -> contextlib.AbstractContextManager[None]:
    """While a task of one's own is at work, standard output is kept for results."""
    if given.task is None:
        return contextlib.nullcontext()
    from lab.user_file import aside

    return aside()


def write(path: str, text: str):
    """Write to a file, or to standard output for `-`."""
    try:
        if path == "-":
            sys.stdout.write(text)
            sys.stdout.flush()
        else:
            Path(path).write_text(text, encoding="utf-8")
    except BrokenPipeError:
        raise
    except OSError as error:
        place = "standard output" if path == "-" else path
        raise SettingsError(f"{place}: cannot be written ({error.strerror}); give another file") from None


def run(given: argparse.Namespace) -> int:
    """`training-lab run`: train, in one process or several, and write what was asked for."""
    settings = read_settings(given)
    if given.json is not None and given.json == given.csv:
        return refuse(f"--json {given.json} and --csv {given.csv}: both cannot go to one place; give two")
    team = processes.team(given)
    if team is None or team.process == 0:
        for path in (given.json, given.csv):
            check_writable(path)
    if team is None or team.processes == 1:
        return train(given, settings)
    if given.task is not None:
        return refuse(f"--task {shown(given.task)}: a task of your own trains in one process; leave --coordinator out")
    terms = processes.terms(team, settings, given.against)
    return processes.together(team, terms, functools.partial(train, given, settings, team))


def train(given: argparse.Namespace, settings: Settings, team: Team | None = None) -> int:
    """Train, and write what was asked for; of several processes all train and the first writes."""
    from lab import findings
    from lab.comparison import compare
    from lab.diagnosis import diagnose
    from lab.record import to_json
    from lab.run import fit

    with quietly(given):
        comparison = compare(settings, **files.with_table(split_words(given.against))) if given.against else None
        result = comparison.run if comparison else fit(settings, progress=team is None and sys.stderr.isatty())
        sides = {"": result} if comparison is None else {"": result, "against: ": comparison.compared}
        found = {label: [f for f in (*findings.of_run(side), diagnose(side)) if f] for label, side in sides.items()}
    if team and team.process > 0:
        print(f"training-lab: {team.named(team.process)} has trained; process 0 tells and writes", file=sys.stderr)
        return 0
    if given.csv is not None:
        write(given.csv, result.record.to_csv())
    if given.json is not None:
        told = {**result.to_dict(), "seconds": result.seconds}
        if comparison:
            told["compared"] = comparison.compared.to_dict()
            told["difference"] = {
                **comparison.loss,
                "parameter_step": comparison.parameters["step"],
                "parameter_distance": comparison.parameters["parameter_distance"],
            }
        told["findings"] = [finding._asdict() for finding in found[""]]
        write(given.json, to_json(told) + "\n")
    for label, side in sides.items():
        say(label + headline(side.settings), found[label])
    if comparison:
        apart, loss = comparison.parameters["parameter_distance"][-1], comparison.loss["loss_absolute"][-1]
        print(
            f"{' '.join(given.against)}: parameters end {findings.percent(apart)} apart, the last loss differs by "
            f"{findings.number(loss)}",
            file=sys.stderr,
        )
    print(
        f"{findings.number(result.seconds['per_update'] * 1000)} ms an update, "
        f"{result.seconds['compile']:.2f} s to compile",
        file=sys.stderr,
    )
    return 0


def inspect(given: argparse.Namespace) -> int:
    """`training-lab inspect`: train up to one update and open it."""
    settings = read_settings(given)
    if not 0 <= given.step < settings.steps:
        return refuse(
            f"--step {given.step}: must be 0 to {settings.steps - 1}, the updates of this run; "
            f"choose one of them, or more steps"
        )
    check_writable(given.json)

    from lab import findings
    from lab.record import to_json
    from lab.run import fit

    with quietly(given):
        opened = fit(settings, progress=lambda progress: progress.step <= given.step)
        update, census = opened.at(given.step), opened.census(given.step)
        orders = opened.orders(given.step).all if given.json else []
    of_census = (
        findings.of_census(census, settings.loss_scaling == "dynamic") if settings.compute_dtype != "float32" else None
    )
    found = findings.of_update(update) + ([of_census] if of_census else [])
    if given.json:
        told = {"settings": settings.to_dict(), **update.to_dict(), "range": census.to_dict()}
        told["orders"] = [order.to_dict() for order in orders]
        told["findings"] = [finding._asdict() for finding in found]
        write(given.json, to_json(told) + "\n")
    say(f"{headline(settings)} · update {given.step}", found)
    if not given.json:
        for name, vector in update.reductions.items():
            error = update.reduction_agreement[name].relative_error
            print(f"  {name:15} norm {vector.norm:<12.6g} relative error {error:.2g}", file=sys.stderr)
    return 0


def bench(given: argparse.Namespace) -> int:
    """`training-lab bench`: time the lab beside other ways to train the same."""
    chosen = grid.read(given)
    check_writable(given.json)

    from lab import bench
    from lab.machine import machine
    from lab.record import to_json

    rows = list(bench.measure(chosen, lambda text: print(text, file=sys.stderr)))
    if given.json is not None:
        write(given.json, to_json({"machine": machine(), "rows": [row.to_dict() for row in rows]}) + "\n")
    if given.json != "-":
        about = ", ".join(f"{name} {value}" for name, value in machine().items())
        summary = f"\n{bench.summary(rows)}\n" if "ours" in chosen.loops else ""
        write("-", f"{about}\n{bench.table(rows)}\n{summary}")
    return 0


def check_writable(path: str | None):
    """Refuse a file that cannot be written before any training."""
    if path is None or path == "-":
        return
    file = Path(path)
    try:
        fits = bool(path) and file.resolve().parent.is_dir() and not file.is_dir()
    except (OSError, ValueError):
        fits = False
    if not fits:
        raise SettingsError(f"{shown(path)}: cannot be written; give a file in a folder that exists")


def say(title: str, found):
    """The headline and the findings, on standard error."""
    print(title, file=sys.stderr)
    for finding in found:
        cure = " ".join(f"{name}={value}" for name, value in finding.cure.items())
        print(f"  {finding.level}: {finding.text}" + (f" Try: {cure}" if cure else ""), file=sys.stderr)


def serve(given: argparse.Namespace) -> int:
    """`training-lab`: serve the page."""
    from app.server import serve

    address = Settings.from_words(own_task(given.own)).address() if given.own is not None else ""
    return serve(port=given.port, browser=not given.no_browser, query=address)
