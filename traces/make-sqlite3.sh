#!/usr/bin/env bash
# Makes sqlite3.sctrace: the sqlite3 shell loads a part of the distribution's package index into tables, indexes it and
# its descriptions' words, answers questions about it, changes it and packs it; large sorts use four threads.
#
# Needs a Debian-like system with an up-to-date package index (`apt-get update`) and the package `sqlite3`, built without
# lookaside as Debian does, so that every small allocation is a call of malloc.
#
# Usage: traces/make-sqlite3.sh [NUMBER_OF_PACKAGES]
set -euo pipefail

packages=${1-3000}
case $packages in
    '' | *[!0-9]* | 0*)
        echo "error: \`$packages\` is no number of packages: give one of 1 or more, without zeroes before it" >&2
        exit 2
        ;;
esac
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C

# The first packages in alphabetical order whose names begin with "lib": one line each, with its fields set apart by tabs.
apt-cache dumpavail | awk '
    function flush() {
        if (name ~ /^lib/ && !(name in seen)) {
            seen[name] = 1
            print name, version, section, size, installed, maintainer, depends, description
        }
        name = version = section = size = installed = maintainer = depends = description = ""
    }
    BEGIN { OFS = "\t" }
    { gsub(/\t/, " ") }
    /^$/ { flush(); next }
    /^Package: / { name = substr($0, 10) }
    /^Version: / { version = substr($0, 10) }
    /^Section: / { section = substr($0, 10) }
    /^Size: / { size = substr($0, 7) }
    /^Installed-Size: / { installed = substr($0, 17) }
    /^Maintainer: / { maintainer = substr($0, 13) }
    /^Depends: / { depends = substr($0, 10) }
    /^Description: / { description = substr($0, 14) }
    END { flush() }
' | sort > "$work/all.tsv"
# Apart from the sorting, which would fail when nobody reads the rest.
head -n "$packages" "$work/all.tsv" > "$work/package.tsv"
if [ ! -s "$work/package.tsv" ]; then
    echo 'error: the package index names no package that begins with "lib": run `apt-get update` first' >&2
    exit 1
fi

# One line for each dependency: package, what it needs, and the condition on its version.
awk -F '\t' '
    BEGIN { OFS = "\t" }
    {
        count = split($7, needs, /, */)
        for (i = 1; i <= count; i++) {
            needed = needs[i]; condition = ""
            if (match(needed, / \(.*\)/)) condition = substr(needed, RSTART + 2, RLENGTH - 3)
            sub(/[ |:].*/, "", needed)
            if (needed != "") print $1, needed, condition
        }
    }
' "$work/package.tsv" > "$work/dependency.tsv"

cat > "$work/questions.sql" <<'SQL'
PRAGMA page_size = 4096;
PRAGMA cache_size = -1024;
PRAGMA threads = 4;
PRAGMA journal_mode = WAL;

CREATE TABLE package (name TEXT PRIMARY KEY, version TEXT, section TEXT, size INTEGER, installed INTEGER,
    maintainer TEXT, depends TEXT, description TEXT);
CREATE TABLE dependency (package TEXT, needs TEXT, condition TEXT);
.mode ascii
.separator "\t" "\n"
.import package.tsv package
.import dependency.tsv dependency
CREATE INDEX dependency_package ON dependency (package, needs);
CREATE INDEX dependency_needs ON dependency (needs, package, condition);
CREATE INDEX package_section ON package (section, maintainer, description);
ANALYZE;

-- Words of the descriptions, and searches for them.
CREATE VIRTUAL TABLE words USING fts5 (name, description, tokenize = 'porter unicode61');
INSERT INTO words SELECT name, description FROM package;
INSERT INTO words (words) VALUES ('optimize');
SELECT count(*), sum(rank) FROM words WHERE words MATCH 'library';
SELECT count(*), max(shown) FROM (SELECT highlight(words, 1, '<', '>') AS shown FROM words
    WHERE words MATCH 'develop* OR perl NOT runtime' ORDER BY rank LIMIT 1000);

-- Joins and groups.
SELECT section, count(*), avg(size), max(installed), length(group_concat(name)) FROM package GROUP BY section;
SELECT maintainer, count(*) AS n, length(json_group_array(json_object('name', name, 'version', version, 'size', size)))
    FROM package GROUP BY maintainer ORDER BY n DESC LIMIT 20;
SELECT p.name, count(*) AS n, sum(q.size) FROM package p JOIN dependency d ON d.needs = p.name
    JOIN package q ON q.name = d.package GROUP BY p.name ORDER BY n DESC, p.name LIMIT 20;
SELECT count(*), max(pair) FROM (SELECT DISTINCT upper(a.package || b.needs) AS pair FROM dependency a
    JOIN dependency b ON a.needs = b.package ORDER BY pair);
SELECT count(*), max(line) FROM (SELECT p.maintainer, d.needs, p.description, p.depends AS line FROM dependency d
    JOIN package p ON p.name = d.package ORDER BY d.condition DESC, p.description, d.needs);

-- What each package needs in the end.
WITH RECURSIVE closure (root, name) AS (
    SELECT name, name FROM package WHERE name LIKE 'liba%'
    UNION
    SELECT closure.root, dependency.needs FROM closure JOIN dependency ON dependency.package = closure.name
)
SELECT root, count(*) AS n, length(group_concat(name, ' ')) FROM closure GROUP BY root ORDER BY n DESC LIMIT 20;

-- Windows, text and sorting of wide rows.
SELECT max(place), max(length(version_list)) FROM (SELECT name, rank() OVER (PARTITION BY section ORDER BY size) AS place,
    group_concat(version) OVER (PARTITION BY section ORDER BY size ROWS 10 PRECEDING) AS version_list FROM package);
SELECT count(*), max(line) FROM (SELECT printf('%s %s %.3f %s', d.needs, p.version, p.size / 1024.0,
    replace(p.description, 'library', d.condition)) AS line FROM dependency d JOIN package p ON p.name = d.package
    ORDER BY line);
SELECT sum(json_extract(value, '$.size')), count(*) FROM json_each((SELECT json_group_array(json_object(
    'size', size, 'maintainer', maintainer, 'needs', json('["' || replace(depends, ', ', '","') || '"]'))) FROM package));

-- Changes.
BEGIN;
UPDATE package SET description = description || ' (' || section || ')', installed = installed + length(depends);
DELETE FROM dependency WHERE rowid % 3 = 0;
INSERT INTO dependency SELECT name, section, version FROM package;
UPDATE words SET description = upper(description) WHERE rowid % 4 = 0;
COMMIT;
VACUUM;
PRAGMA integrity_check;
SQL

cd "$work"
# The recorder is built here, so this runs where the workspace is; the database is left to the temporary directory.
(cd "$root" && cargo build --quiet --package xtask)
"${CARGO_TARGET_DIR:-$root/target}/debug/xtask" record --output "$root/traces/sqlite3.sctrace" -- \
    sqlite3 -batch packages.db ".read questions.sql"
