# vLLM with the collector beside it; nothing of vLLM is changed. Build from the repository's root:
#   docker build -f docker/vllm.Dockerfile --build-arg VLLM_VERSION=0.32.0 -t falseok-vllm .
ARG VLLM_VERSION=0.32.0
FROM vllm/vllm-openai:v${VLLM_VERSION}

WORKDIR /opt/falseok
COPY pyproject.toml README.md LICENSE ./
COPY collector collector
COPY pipeline pipeline
COPY alerts alerts
COPY lab lab
COPY cli cli
# Without the service's dependencies: vLLM's own stay as they are.
RUN python3 -m pip install --no-cache-dir ".[kafka]"

# vLLM's own working directory, and its entry point as it is.
WORKDIR /vllm-workspace
