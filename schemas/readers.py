#!/usr/bin/env python3
"""Reads files of sanitized records and counts as other people's tools do, without any hint.

    schemas/readers.py GEODITHER FOLDER

A day begins with six hours without a release (release.hours): 28,800 zeros. DuckDB and pandas guess
the type of a column from its first rows, so each float must look like one there, each field must be
there, and all times must have one form.
"""
import datetime
import math
import pathlib
import random
import subprocess
import sys

import duckdb
import pandas

geodither, folder = sys.argv[1], pathlib.Path(sys.argv[2])
BOX = "53.40,-2.99,53.47,-2.89"
DAY = datetime.datetime(2026, 1, 26, tzinfo=datetime.timezone.utc)


def run(*words):
    done = subprocess.run([geodither, *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{words}: {done.stderr}")


# 40 vehicles that report every 30 seconds from midnight to 06:40, some between whole seconds.
traces, walk = folder / "traces.csv", random.Random(1)
places = [[walk.uniform(53.41, 53.46), walk.uniform(-2.98, -2.90)] for _ in range(40)]
with traces.open("w") as out:
    out.write("user_id,timestamp,latitude,longitude\n")
    for step in range(800):
        for user, place in enumerate(places):
            place[0] = min(max(place[0] + walk.gauss(0, 0.001), 53.405), 53.465)
            place[1] = min(max(place[1] + walk.gauss(0, 0.001), -2.985), -2.895)
            at = DAY + datetime.timedelta(seconds=30 * step, milliseconds=[0, 500, 123][user % 3])
            out.write(f"v{user},{at.isoformat()},{place[0]:.6f},{place[1]:.6f}\n")
config = folder / "geodither.yml"
config.write_text(
    "release: {mechanism: codebook, epsilon: 6.6, interval: 40m, budget: {epsilon: 20, window: 24h}, "
    'hours: [{from: 06:00, to: 23:00, zone: UTC}]}\n')
model, released = folder / "model.avro", {}
run("train", "--in", traces, "--box", BOX, "--cell", "250m", "--step", "30s", "--out", model)
for form in ("csv", "ndjson", "parquet", "geojson"):
    run("sanitize", "-c", config, "--model", model, "--in", traces, "--seed", "1",
        "--out", folder / f"day.{form}")
for form in ("csv", "ndjson"):
    run("counts", "--in", traces, "--from", "2026-01-26", "--to", "2026-01-27", "--epsilon", "1",
        "--per-day", "4", "--zone", "2km", "--box", BOX, "--out", folder / f"counts.{form}")

FLOATS = ["latitude", "longitude", "radius_m", "epsilon", "delta"]
NULLABLE = ["sigma_major_m", "sigma_minor_m", "azimuth_deg", "release_latitude", "release_longitude"]


def check(true, *what):
    if not true:
        sys.exit(" ".join(map(str, what)))


def types(relation):
    return dict(zip(relation.columns, map(str, relation.types)))


sums = {}
for form, read in (("csv", "read_csv"), ("ndjson", "read_json"), ("parquet", "read_parquet")):
    day = duckdb.sql(f"FROM {read}('{folder}/day.{form}')")
    found = types(day)
    for name in FLOATS:
        check(found[name] == "DOUBLE", "DuckDB,", form, name, "is", found[name])
    check(found["timestamp"].startswith("TIMESTAMP"), "DuckDB,", form, "times are", found["timestamp"])
    check(set(NULLABLE) <= set(found), "DuckDB,", form, "lacks", set(NULLABLE) - set(found))
    # Of a column that begins with nulls DuckDB has to see more (CONSUMERS.md).
    if form == "ndjson":
        day = duckdb.sql(f"FROM read_json('{folder}/day.ndjson', sample_size=-1)")
    sums["DuckDB", form] = duckdb.sql(
        "SELECT count(*), sum(epsilon), max(epsilon), max(release_latitude::DOUBLE) FROM day"
    ).fetchall()[0]
for form, read in (("csv", pandas.read_csv), ("ndjson", lambda p: pandas.read_json(p, lines=True)),
                   ("parquet", pandas.read_parquet)):
    day = read(folder / f"day.{form}")
    for name in FLOATS + NULLABLE:
        # Of JSON, pandas makes whole floats integers where all of the file's are.
        whole = form == "ndjson" and (day[name] == day[name].round()).all()
        check(day[name].dtype == "float64" or whole, "pandas,", form, name, "is", day[name].dtype)
    times = pandas.to_datetime(day["timestamp"])
    check(times.dt.microsecond.max() == 500_000, "pandas,", form, "lost milliseconds")
    sums["pandas", form] = (len(day), day["epsilon"].sum(), day["epsilon"].max(),
                            day["release_latitude"].max())
rows, total, most, north = sums["DuckDB", "parquet"]
check(rows == 32_000 and most == 6.6 and math.isclose(total, 40 * 6.6), "the day has", sums)
for reader, (n, spent, largest, farthest) in sums.items():
    check(n == rows and largest == most and math.isclose(spent, total) and
          math.isclose(farthest, north, abs_tol=1e-7), reader, "reads", sums[reader], "not", (rows, total))

places = pandas.json_normalize(pandas.read_json(folder / "day.geojson")["features"].tolist())
check(places["properties.epsilon"].dtype == "float64", "GeoJSON: epsilon is no float")
for form, read in (("csv", "read_csv"), ("ndjson", "read_json")):
    found = types(duckdb.sql(f"FROM {read}('{folder}/counts.{form}')"))
    for name in ("latitude", "longitude", "estimate", "epsilon"):
        check(found[name] == "DOUBLE", "DuckDB, counts as", form, name, "is", found[name])
print("DuckDB and pandas read CSV, NDJSON and Parquet as they are meant")
