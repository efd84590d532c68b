"""An answer with its text on the way to the sender thread, which turns the text into numbers and lets go of it."""

import contextlib

import msgspec

from falseok_collector.allowance import ByteAllowance, TimeAllowance
from falseok_collector.attributes import ApiResponse
from falseok_collector.capture import captured
from falseok_collector.feature_catalogue import worst
from falseok_collector.hashing import KeyedHash
from falseok_collector.request_body import RequestBody
from falseok_collector.settings import Settings
from falseok_collector.text_features import ChoiceText, PromptText, choice_features, token_features


class EngineTokens(msgspec.Struct, frozen=True):
    """What the engine tells of one engine request's tokens: beginning and end of its token ids, in unbroken pieces."""

    pieces: tuple[list[int], ...]
    mean_log_probability: float | None = None


class TextOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is made of the text."""

    features: bool = True
    capture: bool = False
    capture_max_bytes: int = 0

    @classmethod
    def of(cls, settings: Settings) -> "TextOptions":
        """What the settings want."""
        return cls(
            features=settings.text_features,
            capture=settings.capture_text,
            capture_max_bytes=settings.capture_text_max_bytes,
        )


class Describer:
    """Makes described answers within what they may cost. One a process; a fork's child makes its own."""

    def __init__(self, options: TextOptions) -> None:
        self.options = options
        self.bytes = ByteAllowance()
        self.time = TimeAllowance()

    def describe(
        self,
        attributes: ApiResponse,
        choices: list[ChoiceText],
        request: RequestBody,
        tokens: list[EngineTokens],
    ) -> "ApiResponse | DescribedAnswer":
        """The answer for the ring. Constant work: the texts are kept as they are, if there is room."""
        if not (self.options.features or self.options.capture):
            return msgspec.structs.replace(attributes, features_missing="off")
        if not choices and not tokens:
            return attributes
        size = request.kept_bytes + sum(4 * (one.content.kept + one.reasoning.kept) for one in choices)
        size += 64 * sum(len(piece) for one in tokens for piece in one.pieces)
        if not self.bytes.take(size):
            return msgspec.structs.replace(attributes, features_missing="memory")
        return DescribedAnswer(self, attributes, choices, request, tokens, size)


class DescribedAnswer:
    """A snapshot that still has to be turned into attributes (`falseok_collector.deferred`)."""

    def __init__(  # noqa: PLR0913, PLR0917 - a snapshot is wide; made in one place
        self,
        describer: Describer,
        attributes: ApiResponse,
        choices: list[ChoiceText],
        request: RequestBody,
        tokens: list[EngineTokens],
        size: int,
    ) -> None:
        self._describer = describer
        self._attributes = attributes
        self._choices = choices
        self._request = request
        self._tokens = tokens
        self._size = size

    def __del__(self) -> None:
        """The ring may refuse it: its memory is given back wherever it ends."""
        self._describer.bytes.give(self._size)

    def finish(self, keyed_hash: KeyedHash) -> ApiResponse:  # noqa: ARG002 - no digest is taken of texts
        """Compute the features. What goes wrong here costs the features or the text, never the event."""
        options = self._describer.options
        attributes = self._attributes
        if options.features:
            attributes = self._with_features(attributes)
        if options.capture:
            with contextlib.suppress(Exception):  # any text may have been answered
                attributes = captured(attributes, self._choices, options.capture_max_bytes)
        return attributes

    def _with_features(self, attributes: ApiResponse) -> ApiResponse:
        allowance = self._describer.time
        if not allowance.left():
            return msgspec.structs.replace(attributes, features_missing="busy")
        try:
            return msgspec.structs.replace(attributes, features=allowance.spend(self._features))
        except Exception:  # noqa: BLE001 - any text may have been answered
            return msgspec.structs.replace(attributes, features_missing="error")

    def _features(self) -> dict[str, float]:
        prompt = PromptText(self._request.prompt())
        of_choices = [choice_features(choice, prompt) for choice in self._choices]
        for tokens in self._tokens:
            of_tokens = token_features(tokens.pieces)
            if tokens.mean_log_probability is not None:
                of_tokens["mean_log_probability"] = round(tokens.mean_log_probability, 4)
            of_choices.append(of_tokens)
        return worst(of_choices) | prompt.features()
