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
