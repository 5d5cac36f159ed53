"""Runs SQL from standard input with DuckDB, and prints the rows of each query as a line of JSON, all
values as text: BROKERS REGISTRY FOLDER. Files in the SQL are those of the folder."""
import json
import os
import sys

import duckdb

os.chdir(sys.argv[3])
connection = duckdb.connect()
for statement in connection.extract_statements(sys.stdin.read()):
    is_query = statement.type == duckdb.StatementType.SELECT
    rows = connection.execute(statement).fetchall()
    if is_query:
        print(json.dumps([[str(value) for value in row] for row in rows]))
