"""Images made to fit: scaled with Pillow, told without it, never more than a target takes."""

from __future__ import annotations

import base64
import io
from typing import Any

import pytest
from PIL import Image

from memory.messages.names import ModelRef
from memory.messages.prompt import File, Message, Output, Prompt, Text, ToolCall, ToolResult
from memory.processors import Switches
from memory.processors.changes import Change
from memory.processors.compat.passes import CATALOGUE, scaling
from memory.processors.compat.passes.scaling import scaled
from memory.processors.compat.processor import run_steps
from memory.profiles import profile_for
from tests import nasty


def picture(width: int, height: int, form: str = "PNG", **saved: Any) -> str:
    made = Image.linear_gradient("L").resize((width, height)).convert("RGB")
    out = io.BytesIO()
    made.save(out, form, **saved)
    return base64.b64encode(out.getvalue()).decode()


def opened(data: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(data)))


def sent(prompt: Prompt, model: str = "claude-sonnet-4-5", provider: str = "anthropic") -> tuple[Prompt, list[Change]]:
    out, changes, *_ = run_steps(CATALOGUE, prompt, profile_for(ModelRef(provider, model)), Switches())
    return out, changes


def asking(*data: str, kind: str = "image/png") -> Prompt:
    return Prompt((Message("user", (*(File(kind, one) for one in data), Text("What is it?")), id="m"),))


class TestScaling:
    @pytest.mark.parametrize(
        ("form", "kind"), [("PNG", "image/png"), ("JPEG", "image/jpeg"), ("WEBP", "image/webp"), ("GIF", "image/png")]
    )
    def test_keeps_kind_and_shape(self, form: str, kind: str) -> None:
        made = scaled(picture(4000, 1000, form), longest=2000, most_bytes=5_000_000)
        assert made is not None
        assert (made.media_type, made.size) == (kind, (1568, 392))
        assert opened(made.data).size == (1568, 392)

    def test_gives_the_same_bytes_again(self) -> None:
        data = picture(3000, 2000, "JPEG")
        first = scaled(data, longest=2000, most_bytes=5_000_000)
        scaling._kept.clear()
        assert scaled(data, longest=2000, most_bytes=5_000_000) == first
        assert scaled(f"data:image/jpeg;base64,{data}", longest=2000, most_bytes=5_000_000) is scaled(
            data, longest=2000, most_bytes=5_000_000
        )

    def test_turns_it_as_its_exif_says_and_leaves_that_out(self) -> None:
        exif = Image.Exif()
        exif[0x0112] = 6  # a quarter to the right
        made = scaled(picture(3000, 1000, "JPEG", exif=exif), longest=2000, most_bytes=5_000_000)
        assert made is not None and made.size == (523, 1568)
        assert not opened(made.data).getexif()

    def test_keeps_what_is_clear_clear(self) -> None:
        out = io.BytesIO()
        Image.new("RGBA", (3000, 10), (1, 2, 3, 0)).save(out, "PNG")
        made = scaled(base64.b64encode(out.getvalue()).decode(), longest=2000, most_bytes=5_000_000)
        assert made is not None
        assert opened(made.data).convert("RGBA").getchannel("A").getextrema() == (0, 0)

    def test_makes_it_light_enough(self) -> None:
        made = scaled(picture(1500, 1500), longest=8000, most_bytes=3000)
        assert made is not None and len(made.data) * 3 // 4 <= 3002

    @pytest.mark.parametrize(
        "data",
        [
            "",
            "no base64!",
            "AAAA",
            nasty.png(60_000, 1),
            picture(3000, 3000)[:4000],
            base64.b64encode(b"\xff\xd8").decode(),
        ],
    )
    def test_gives_nothing_for_what_it_can_not_open(self, data: str) -> None:
        made = scaled(data, longest=2000, most_bytes=5_000_000)
        assert made is None or made.size == (1568, 1)

    def test_opens_no_picture_that_would_fill_the_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        bomb = base64.b64decode(nasty.png(3, 2))
        huge = bomb[:16] + (50_000).to_bytes(4) + (50_000).to_bytes(4) + bomb[24:]
        monkeypatch.setattr(Image, "open", lambda *_, **__: pytest.fail("it was opened"))
        assert scaled(base64.b64encode(huge).decode(), longest=2000, most_bytes=5_000_000) is None


class TestPass:
    def test_scales_what_is_too_large_and_says_from_what_to_what(self) -> None:
        data = picture(9000, 30)
        out, changes = sent(asking(data))
        file = out.messages[0].parts[0]
        assert isinstance(file, File) and opened(file.data).size == (1568, 5)
        (change,) = changes
        assert (change.rule, change.loss, change.spot.message_id) == ("anthropic-image-dimensions", "reshaped", "m")
        assert change.before["image"] == [9000, 30] and change.after["image"] == [1568, 5]

    def test_leaves_what_fits(self) -> None:
        prompt = asking(picture(7000, 10))
        assert sent(prompt)[0] is prompt

    def test_takes_less_among_many_and_says_that_the_cache_breaks(self) -> None:
        wide, small = picture(3000, 3), picture(4, 3)
        few = asking(wide, *[small] * 19)
        assert sent(few)[0] is few
        grown = Prompt((*few.messages, Message("assistant", (Text("A line."),)), *asking(small).messages))
        out, changes = sent(grown)
        assert isinstance(out.messages[0].parts[0], File) and opened(out.messages[0].parts[0].data).width == 1568
        (change,) = changes
        assert change.breaks_prefix and "cache" in change.reason
        later = Prompt((*grown.messages, Message("assistant", (Text("Yes."),)), Message("user", (Text("Sure?"),))))
        again, changes = sent(later)
        assert again.messages[0] == out.messages[0]
        assert [change.breaks_prefix for change in changes] == [False]

    def test_finds_images_in_results(self) -> None:
        call = ToolCall("t1", "shot", {})
        items = [{"type": "media", "data": picture(9000, 30), "mediaType": "image/png"}]
        result = ToolResult("t1", "shot", Output("content", items))
        prompt = Prompt((*asking(picture(4, 3)).messages, Message("assistant", (call,)), Message("tool", (result,))))
        out, changes = sent(prompt)
        part = out.messages[2].parts[0]
        assert isinstance(part, ToolResult) and opened(part.output.value[0]["data"]).size == (1568, 5)
        assert [change.loss for change in changes] == ["reshaped"]

    def test_tells_the_oldest_where_there_are_too_many(self) -> None:
        data = [picture(4 + n, 3) for n in range(7)]
        out, changes = sent(asking(*data), "meta-llama/llama-4-scout", "groq")
        kinds = [type(part) for part in out.messages[0].parts]
        assert kinds == [Text, Text, File, File, File, File, File, Text]
        assert out.messages[0].parts[0] == Text("[image: image/png, 4 x 3 pixels]")
        assert [change.loss for change in changes] == ["content lost"] * 2

    def test_without_pillow_tells_its_size(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(scaling, "Image", None)
        out, changes = sent(asking(picture(9000, 30)))
        assert out.messages[0].parts[0] == Text("[image: image/png, 9000 x 30 pixels]")
        assert changes[0].loss == "content lost" and "without Pillow" in changes[0].reason
