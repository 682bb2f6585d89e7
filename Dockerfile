# syntax=docker/dockerfile:1
# One image for every role. Without AIOSCHED_DSN it starts its embedded PostgreSQL in the home volume.

FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY aiosched ./aiosched
RUN pip wheel --no-cache-dir --wheel-dir /wheels .

FROM python:3.13-slim
# git is for bundles from repositories
RUN apt-get update && apt-get install --yes --no-install-recommends git && rm -rf /var/lib/apt/lists/*
RUN useradd --system --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin aiosched \
    && install --directory --owner aiosched --group aiosched /dags /var/lib/aiosched /var/log/aiosched
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels aiosched

ENV PYTHONUNBUFFERED=1 \
    AIOSCHED_DAGS=/dags \
    AIOSCHED_HOME=/var/lib/aiosched \
    AIOSCHED__LOGS__FOLDER=/var/log/aiosched
VOLUME ["/dags", "/var/lib/aiosched", "/var/log/aiosched"]
WORKDIR /var/lib/aiosched
USER aiosched

HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["aiosched", "schedulers", "check", "--local"]

# Exec form: aiosched is process 1, gets SIGTERM itself and drains.
ENTRYPOINT ["aiosched"]
CMD ["serve"]
