#!/usr/bin/env python3
"""Measures a typical day beside dp_mobility_report: "make typical" installs it and runs this.

    typical.py GEODITHER FOLDER [GEOLIFE]

Fleets with habits of 60 zones, whose popularity follows Zipf's law, drive ten hours on twenty
working days. Where zones "keep their share", each vehicle is in one of three zones of its own with
70 %, else in any. Where "hours differ", half of that is moved by an order of the hour's own. Each
fleet is counted by "geodither counts" and by the peer's visits_per_time_tile, at the same ε for all
that a user does on all days. The table is on standard output: the total variation of the average day
by zone, the mean over hours weighted by vehicles, and of intervals the share that holds the truth.
Geodither's noise has fixed keys; the peer's cannot be fixed.

GEOLIFE is a folder of files USER.csv.gz of Beijing's 3rd ring. Then a third kind of fleet has real days:
each vehicle is one of its users, and each working day one of that user's days.
"""
import csv
import datetime
import gzip
import json
import pathlib
import random
import subprocess
import sys
import warnings

import geopandas
import pandas
from dp_mobility_report import DpMobilityReport

GEODITHER, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
ZONES, HOURS, FIRST = 60, range(8, 18), datetime.date(2026, 6, 1)
DAYS = [FIRST + datetime.timedelta(days=7 * week + day) for week in range(4) for day in range(5)]
SEEDS = {30: 8, 100: 6, 300: 6, 1000: 6, 3000: 2}  # fleets of a size
PEER = {100, 300, 1000}  # it takes long
EPSILONS = (1, 2, 5)


def corners(zone):
    west, south = 0.02 * (zone % 10), 50 + 0.02 * (zone // 10)
    return [[west, south], [west + .02, south], [west + .02, south + .02], [west, south + .02],
            [west, south]]


def drive(vehicles, differ, seed):
    """Yields a vehicle, a time and a zone."""
    draw = random.Random(f"{vehicles} {differ} {seed}")
    popular = draw.sample(range(ZONES), ZONES)
    weights = [(1 + popular[z]) ** -.8 for z in range(ZONES)]
    order = {hour: draw.sample(range(ZONES), ZONES) for hour in HOURS}
    for vehicle in range(vehicles):
        own = draw.choices(range(ZONES), weights, k=3)
        for day in DAYS:
            for hour in HOURS:
                any_zone = draw.random() >= .7
                zone = draw.choices(range(ZONES), weights)[0] if any_zone else draw.choice(own)
                if differ and draw.random() < .5:
                    zone = order[hour][zone]
                yield vehicle, datetime.datetime(day.year, day.month, day.day, hour, 5), zone


def real_days(folder):
    """Returns the days of each user: the zone of the first fix in each hour, by Beijing's clock."""
    users = []
    for path in sorted(pathlib.Path(folder).glob("*.csv.gz")):
        days = {}
        with gzip.open(path, "rt") as lines:
            for row in csv.reader(lines):
                try:
                    at = datetime.datetime.fromisoformat(row[1].replace("Z", "+00:00"))
                except ValueError:
                    continue  # the header
                at += datetime.timedelta(hours=8)
                column = int((float(row[3]) - 116.27) / .023)
                line = int((float(row[2]) - 39.85) / .02)
                if at.hour in HOURS and 0 <= column < 10 and 0 <= line < 6:
                    days.setdefault(at.date(), {}).setdefault(at.hour, 10 * line + column)
        if days:
            users.append(list(days.values()))
    return users


def drive_real(vehicles, users, seed):
    draw = random.Random(f"real {vehicles} {seed}")
    for vehicle in range(vehicles):
        days = draw.choice(users)
        for day in DAYS:
            for hour, zone in draw.choice(days).items():
                yield vehicle, datetime.datetime(day.year, day.month, day.day, hour, 5), zone


def variation(shown, truth):
    """Of maps by hour and zone; negative numbers are 0, and an empty map is an even one."""
    wrong = seen = 0
    for hour in HOURS:
        actual = [truth[hour, z] for z in range(ZONES)]
        cut = [max(0, shown[hour, z]) for z in range(ZONES)]
        if sum(cut) == 0:
            cut = [1] * ZONES
        n = sum(actual)
        wrong += n * sum(abs(a / n - c / sum(cut)) for a, c in zip(actual, cut)) / 2
        seen += n
    return wrong / seen


def counted(fixes, key, epsilon, *more):
    out = FOLDER / "out.csv"
    words = (
        GEODITHER, "counts", "--in", fixes, "--zone", FOLDER / "zones.geojson", "--from", FIRST,
        "--to", DAYS[-1] + datetime.timedelta(days=1), "--per-day", "10", "--epsilon", epsilon,
        "--edition", epsilon, "--key-file", key, "--out", out, *more)
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    with out.open() as lines:
        return [row for row in csv.DictReader(lines) if row["zone"] != "elsewhere"]


def typical(fixes, key, epsilon, truth):
    """Returns vehicles and estimates, and the share of intervals that hold the truth."""
    vehicles, estimates, held = {}, {}, []
    for row in counted(fixes, key, epsilon, "--typical", "--days", "working"):
        at = int(row["slot"][:2]), int(row["zone"])
        if at[0] in HOURS:
            vehicles[at], estimates[at] = float(row["vehicles"]), float(row["estimate"])
            held.append(float(row["low"]) <= truth[at] <= float(row["high"]))
    return vehicles, estimates, sum(held) / len(held)


def daily(fixes, key):
    """Returns the mean of the counts of all days at ε = 1 a day."""
    shown = {}
    for row in counted(fixes, key, 1):
        hour, day = int(row["window_start"][11:13]), datetime.date.fromisoformat(row["day"])
        if hour in HOURS and day in DAYS:
            at = hour, int(row["zone"])
            shown[at] = shown.get(at, 0) + int(row["vehicles"]) / len(DAYS)
    return shown


def peer(visits, epsilon):
    """A visit is a trip that ends there; a user makes 200."""
    tiles = geopandas.GeoDataFrame.from_features(zones(), crs=4326)
    tiles["tile_id"], tiles["tile_name"] = tiles["name"], tiles["name"]
    trips = pandas.DataFrame(
        [(v, n, at, *(c + .01 for c in corners(z)[0])) for n, (v, at, z) in enumerate(visits)],
        columns=["uid", "tid", "datetime", "lng", "lat"])
    trips["datetime"] = trips["datetime"].astype(str)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = DpMobilityReport(
            trips, tiles, privacy_budget=epsilon, user_privacy=True, max_trips_per_user=200,
            analysis_selection=["visits_per_time_tile"], timewindows=list(range(8, 19)),
            disable_progress_bar=True, evalu=True).report["visits_per_time_tile"]
    shown = {(hour, z): 0. for hour in HOURS for z in range(ZONES)}
    for column in report.data.columns:
        hour = int(column[1].split(": ")[1].split("-")[0])  # "1: 8-9"
        for tile, n in report.data[column].items():
            shown[hour, int(tile)] = n / len(DAYS)
    return shown


def zones():
    return [{"type": "Feature", "properties": {"name": str(z)},
             "geometry": {"type": "Polygon", "coordinates": [corners(z)]}} for z in range(ZONES)]


def measure(vehicles, differ, users=None):
    """Returns a row's numbers, the means over fleets."""
    sums = {}
    for seed in range(SEEDS[vehicles]):
        visits = list(drive_real(vehicles, users, seed) if users else drive(vehicles, differ, seed))
        fixes, truth = FOLDER / "fixes.csv", {(h, z): 0 for h in HOURS for z in range(ZONES)}
        with fixes.open("w") as out:
            out.write("user_id,timestamp,latitude,longitude\n")
            for vehicle, at, zone in visits:
                west, south = corners(zone)[0]
                out.write(f"v{vehicle},{at.isoformat()}Z,{south + .01:.3f},{west + .01:.3f}\n")
                truth[at.hour, zone] += 1 / len(DAYS)
        kind = 2 if users else int(differ)
        key = FOLDER / f"{vehicles}-{kind}-{seed}.key"
        key.write_text(f"{1000 * vehicles + 10 * seed + kind + 1:064x}\n")
        got = {"blind": variation(dict.fromkeys(truth, 1), truth),
               "daily": variation(daily(fixes, key), truth)}
        for epsilon in EPSILONS:
            once, estimate, held = typical(fixes, key, epsilon, truth)
            got[f"once {epsilon}"], got[f"estimate {epsilon}"] = (
                variation(once, truth), variation(estimate, truth))
            got[f"held {epsilon}"] = held
            if vehicles in PEER:
                got[f"peer {epsilon}"] = variation(peer(visits, epsilon), truth)
        for name, value in got.items():
            sums[name] = sums.get(name, 0) + value / SEEDS[vehicles]
    return sums


def main():
    (FOLDER / "zones.geojson").write_text(
        json.dumps({"type": "FeatureCollection", "features": zones()}))
    columns = ["blind", "daily"] + [
        f"{name} {epsilon}" for name in ("once", "peer", "estimate", "held") for epsilon in EPSILONS]
    print(",".join(["fleet", "vehicles", *columns]))
    kinds = [("keep their share", False, None), ("hours differ", True, None)]
    if len(sys.argv) > 3:
        kinds.append(("real days", False, real_days(sys.argv[3])))
    for name, differ, users in kinds:
        for vehicles in SEEDS:
            row = measure(vehicles, differ, users)
            print(",".join([name, str(vehicles)] + [
                f"{row[c]:.3f}" if c in row else "" for c in columns]), flush=True)


if __name__ == "__main__":
    main()
