"""The exponent of a curve, its knee, its picture and its page: from points that are known."""

from __future__ import annotations

import json
import math
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest
from bench import _growth_curves, growth
from bench._growth_fit import Point, exponent, fitted, knee, sizes
from bench._growth_picture import draw, said
from bench.growth import CURVES, Grown, figures, main, page, pictures


def curve(power: float, logs: int = 0, noise: tuple[float, ...] = (1.0,)) -> list[Point]:
    """Return what one item costs when n of them cost n to the *power*, times the logarithm of n."""
    return [
        Point(n, 3.0 * n ** (power - 1) * math.log(n) ** logs * noise[number % len(noise)])
        for number, n in enumerate(sizes(100, 100_000))
    ]


@pytest.mark.parametrize("power", [0.5, 1.0, 1.5, 2.0])
def test_the_fit_finds_the_power_and_each_step_agrees(power: float) -> None:
    points = curve(power)
    assert fitted(points) == pytest.approx(power)
    assert exponent(points[0], points[3]) == pytest.approx(power)


def test_n_log_n_has_no_knee_with_or_without_noise() -> None:
    assert knee(curve(1.0)) is None
    assert knee(curve(1.0, logs=1)) is None
    assert knee(curve(1.0, logs=1, noise=(1.0, 1.1, 0.95))) is None


def test_the_knee_is_where_a_curve_gets_steeper_for_good() -> None:
    assert knee(curve(2.0)) == 316  # the middle of the first decade
    flat, steep = curve(1.0)[:3], [Point(n, 3.0 * n / 1_000) for n in sizes(100, 100_000)[3:]]
    assert knee([*flat, *steep]) == 1_000
    bump = [*curve(1.0)]
    bump[2] = Point(bump[2].n, bump[2].cost * 5)  # one slow point in the middle
    assert knee(bump) is None


def test_a_curve_that_flattens_is_not_called_flat() -> None:
    rising = [Point(n, cost) for n, cost in zip(sizes(100, 100_000), (1, 4, 16, 30, 40, 44, 46), strict=True)]
    assert knee(rising) is None
    assert growth.verdict(rising) == "steeper than n log n at small sizes, not at large ones"


def test_the_picture_is_svg_with_every_point_and_both_guides() -> None:
    series = {"flat & level": curve(1.0), "steep": curve(2.0)}
    drawn = draw("A <title>", "nodes", "µs", series, "2 cores, today")
    tree = ElementTree.fromstring(drawn)
    kinds = [element.tag.rpartition("}")[2] for element in tree.iter()]
    texts = [element.text for element in tree.iter() if element.tag.endswith("text")]
    assert kinds.count("circle") == 14
    assert {
        "A <title>",
        "nodes",
        "flat & level",
        "steep",
        "cost ∝ n",
        "cost ∝ n log n",
        "2 cores, today",
    } <= set(texts)
    assert {"100", "1,000", "10,000", "100,000", "10 µs", "1 ms"} <= set(texts)
    assert "prefers-color-scheme: dark" in drawn
    for circle in (element for element in tree.iter() if element.tag.endswith("circle")):
        assert 0 <= float(circle.get("cx", "-1")) <= 760 and 0 <= float(circle.get("cy", "-1")) <= 420


def test_a_picture_of_one_point_is_drawn_and_of_none_refused() -> None:
    assert "<circle" in draw("t", "n", "B", {"a": [Point(100, 5.0)]}, "")
    with pytest.raises(ValueError, match="no points"):
        draw("t", "n", "B", {}, "")


def found() -> dict[growth.Curve, list[Grown]]:
    steps = tuple(curve(1.0))
    return {
        each: [Grown(series, steps, steps if series.memory else ()) for series in each.series]
        for each in CURVES
    }


def test_every_curve_has_its_picture_on_the_page_and_a_sentence_a_series() -> None:
    text, drawn = page(found(), "a machine"), pictures(found(), "a machine")
    assert set(drawn) == {f"growth-{each.name}.svg" for each in CURVES} | {"growth-memory.svg"}
    for name in drawn:
        assert f"(../pictures/{name})" in text
    assert text.count("exponent 1.00; no worse than n log n.") == sum(len(each.series) for each in CURVES)
    assert "a machine" in text and said(3.0, "µs") in text


def test_a_series_asks_a_function_that_is_there_and_is_measured_in_its_own_process() -> None:
    for each in CURVES:
        for series in each.series:
            assert callable(getattr(_growth_curves, series.function)), series


@pytest.mark.parametrize(("curve", "size"), [("whatif", 5), ("leaving", 50)])
def test_what_if_is_measured_on_a_cluster_whose_workloads_differ(curve, size):
    measured = getattr(_growth_curves, curve)(size)
    assert measured.items >= 30 and measured.seconds > 0
    small = growth.Series("small", "startup", 100, 316, "object")
    measured = growth.measured(small, quick=False)
    assert [point.n for point in measured.points] == [100, 316]
    assert all(point.cost > 0 for point in (*measured.points, *measured.memory))


def test_a_point_that_takes_too_long_ends_its_series(monkeypatch, capsys) -> None:
    monkeypatch.setattr(growth, "POINT_SECONDS", 1)
    assert growth.measured(growth.Series("slow", "pods", 1_000_000, 1_000_000), quick=False).points == ()
    assert "slow: 1,000,000 took longer than 1 s; left out" in capsys.readouterr().err


def test_a_point_that_fails_is_not_called_slow() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        growth.measured(growth.Series("wrong", "nothing_like_it", 100, 100), quick=False)


def test_the_page_says_what_a_week_comes_to() -> None:
    (time,) = (each for each in CURVES if each.name == "time")
    hours, evictions = (
        Grown(series, (Point(100, cost),), ()) for series, cost in zip(time.series, (50, 10_000), strict=True)
    )
    text = page({time: [hours, evictions]}, "a machine")
    assert "a week of 5,000 nodes takes 42 s once it is set up, and 1,000 evictions 10 s more" in text
    assert "10 minutes hold a week with 55,800 of them." in text


def test_a_curve_that_ends_early_says_so() -> None:
    (curve_,) = (each for each in CURVES if each.name == "claims")
    early = Grown(curve_.series[0], tuple(curve(1.0)[:3]), ())
    assert "(not measured here up to 100,000)" in page({curve_: [early]}, "a machine")


def test_what_was_measured_before_is_read_again(tmp_path, capsys) -> None:
    file = tmp_path / "before.json"
    known = {
        each.name: {one.series.name: growth._json(one) for one in ones} for each, ones in found().items()
    }
    file.write_text(json.dumps(known))
    assert main([str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(known))
    assert len(figures(growth._read(file))) == 3 * sum(len(each.series) for each in CURVES)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nothing"], "bench growth: unknown curve 'nothing'; there are placement, "),
        (["--fast"], "bench growth: unknown option --fast"),
        (["list", "--write"], "bench growth: --write needs every curve in full"),
        (["missing.json"], "bench growth: missing.json: not what --json writes"),
    ],
)
def test_bad_arguments_are_one_line(arguments: list[str], says: str, capsys) -> None:
    assert main(arguments) == 2
    said_of_it = capsys.readouterr().err
    assert said_of_it.startswith(says) and said_of_it.count("\n") == 1
