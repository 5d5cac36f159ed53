-- What docker-compose.yml keeps in PostgreSQL. No role needs a password: nothing but the
-- containers of the same file reaches the server.
CREATE ROLE registry LOGIN;
CREATE DATABASE registry OWNER registry;

CREATE ROLE sink LOGIN;
CREATE DATABASE fleet OWNER sink;

-- Users who may look at the map may send Grafana queries of their own. This role only reads.
CREATE ROLE map LOGIN;
\connect fleet
ALTER DEFAULT PRIVILEGES FOR ROLE sink GRANT SELECT ON TABLES TO map;

-- The sink makes a table with the first record. The first smoothed one comes hours after the first
-- look at the map, which asks for both. The sink adds columns of fields that may be null.
SET ROLE sink;
CREATE TABLE fleet_sanitized_smoothed (
    user_id text, "timestamp" timestamp, latitude float8, longitude float8, radius_m float8,
    kind text, epsilon float8, delta float8, mechanism text, model_id text, step bigint,
    release bigint, PRIMARY KEY (user_id, "timestamp")
);
