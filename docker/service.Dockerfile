# The service: pipeline, judge and command line. Build from the repository's root:
#   docker build -f docker/service.Dockerfile -t falseok .
FROM python:3.13-slim

WORKDIR /opt/falseok
COPY pyproject.toml README.md LICENSE ./
COPY requirements requirements
COPY collector collector
COPY pipeline pipeline
COPY alerts alerts
COPY lab lab
COPY cli cli
# The versions that the tests ran with.
RUN pip install --no-cache-dir --constraint requirements/service.txt ".[service]" \
    && useradd --create-home --uid 10001 falseok

USER falseok
ENTRYPOINT ["falseok"]
CMD ["--help"]
