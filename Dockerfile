# One image for every role, for amd64 and arm64. Without AIOSCHED_DSN it starts its embedded PostgreSQL in the home volume.
#   docker build --tag aiosched .
#   docker build --tag aiosched --build-arg EXTRAS=otel,oidc .
# It runs with a read-only root: it writes only to its two volumes and to /tmp (docker run --read-only --tmpfs /tmp).
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
WORKDIR /src
# Exactly the files of the lock, which have been built for both architectures: nothing is compiled here.
COPY requirements.lock ./
RUN python3 -m venv /build \
    && /build/bin/pip download --no-cache-dir --require-hashes --only-binary :all: --no-deps \
        --requirement requirements.lock --dest /wheels
COPY pyproject.toml README.md LICENSE ./
COPY tools/wheel_with_docs.py ./tools/
# What it needs is installed before its code is there, and what extras need after that: who changes the code, or chooses
# extras, does not install the rest again. The bytecode is written now, since nobody can write it later.
RUN /build/bin/pip install --no-cache-dir --no-index --find-links /wheels hatchling \
    && mkdir aiosched && touch aiosched/__init__.py \
    && /build/bin/pip wheel --no-cache-dir --no-index --no-deps --no-build-isolation --wheel-dir /empty . \
    && python3 -m venv --without-pip /opt/aiosched \
    && /build/bin/pip --python /opt/aiosched/bin/python install --no-cache-dir --no-index --find-links /wheels \
        --find-links /empty --compile aiosched
# What belongs to no chosen extra stays in /wheels.
ARG EXTRAS=""
RUN /build/bin/pip --python /opt/aiosched/bin/python install --no-cache-dir --no-index --find-links /wheels \
        --find-links /empty --compile "aiosched[${EXTRAS}]"
COPY aiosched ./aiosched
# If `make docs` was run before, the documentation that it built, which the web server shows under /docs: the pattern may
# match nothing, and one file has to be there.
COPY LICENSE buil[d] ./build/
RUN /build/bin/pip wheel --no-cache-dir --no-index --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /build/bin/pip --python /opt/aiosched/bin/python install --no-cache-dir --no-index --find-links /wheels \
        --no-deps --force-reinstall --compile aiosched

FROM ${BASE}
# git is for bundles from repositories
RUN apt-get update && apt-get install --yes --no-install-recommends git && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /var/lib/aiosched \
        --shell /usr/sbin/nologin aiosched \
    && install --directory --owner aiosched --group aiosched /dags /var/lib/aiosched /var/log/aiosched
COPY --from=build /opt/aiosched /opt/aiosched

ENV PATH=/opt/aiosched/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    AIOSCHED_DAGS=/dags \
    AIOSCHED_HOME=/var/lib/aiosched \
    AIOSCHED__LOGS__FOLDER=/var/log/aiosched
# Not /dags: an image with your DAGs is made by copying them there (FROM aiosched, COPY dags /dags).
VOLUME ["/var/lib/aiosched", "/var/log/aiosched"]
WORKDIR /var/lib/aiosched
USER 10001:10001

HEALTHCHECK --interval=10s --timeout=10s --start-period=30s --retries=3 \
    CMD ["aiosched", "schedulers", "check", "--local"]

# Exec form: aiosched is process 1, gets SIGTERM itself and drains.
STOPSIGNAL SIGTERM
ENTRYPOINT ["aiosched"]
CMD ["serve"]
