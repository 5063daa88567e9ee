"""Images in folders and archives: layouts, classes, masks, resizing, and hostile files."""

import io
import os
import struct
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image, ImageOps

from ampdata import Column, Limits, list_splits
from ampdata.images import images
from ampspec.data.file_formats import ImagesOptions
from ampspec.errors import InvalidData
from tests.ampdata.samples import encoded, noise, png, png_of, write_zip
from tests.tables import every_row

IMAGES = ImagesOptions()
ANIMALS = {
    "dog/b.png": png(3, 4, 20),
    "cat/b.png": png(3, 4, 11),
    "cat/a.png": png(3, 4, 10),
}


@pytest.fixture(params=["folder", "stored zip", "deflated zip"])
def write(request, tmp_path):
    """Writes images into a folder, or into an archive."""

    def write_images(files):
        if request.param == "folder":
            for name, content in files.items():
                path = tmp_path / "birds" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            return tmp_path / "birds"
        stored = request.param == "stored zip"
        method = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
        return write_zip(tmp_path / "birds.zip", files, method)

    return write_images


@pytest.fixture
def folder(tmp_path):
    """Writes images into a folder."""

    def write_images(files):
        for name, content in files.items():
            path = tmp_path / "birds" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return tmp_path / "birds"

    return write_images


# Layouts.


def test_folders_are_classes_sorted_by_name(write, open_file):
    source = open_file(write(ANIMALS), IMAGES)
    assert source.columns == {
        "image": Column((3, 4, 3), "image"),
        "label": Column((), "int32", ("cat", "dog")),
    }
    read = source.read(np.arange(3))
    assert read["image"][:, 0, 0, 0].tolist() == [10, 11, 20]
    assert (read["label"].dtype, read["label"].tolist()) == (np.int32, [0, 0, 1])
    assert source.image_name("image", 2) == "dog/b.png"


def test_a_folder_around_all_others_is_ignored(write, open_file):
    files = {f"birds/{name}": content for name, content in ANIMALS.items()}
    hidden = {"__MACOSX/birds/._a.png": b"", "birds/.DS_Store": b"", "birds/README.md": b"x"}
    source = open_file(write(files | hidden), IMAGES)
    assert source.columns["label"].classes == ("cat", "dog")


def test_images_without_folders_have_no_labels(write, read_all):
    read = read_all(write({"b.png": png(2, 2, 2), "a.jpg": jpeg(2, 2, 9)}), IMAGES)
    assert read.keys() == {"image"}
    assert read["image"][:, 0, 0, 0].tolist() == [9, 2]


def test_train_and_test_folders_are_splits_with_the_same_classes(write, open_file, tmp_path):
    files = {f"train/{name}": content for name, content in ANIMALS.items()}
    path = write(files | {"test/dog/x.png": png(3, 4), "val/bird/x.png": png(3, 4)})
    assert list_splits(path, IMAGES, cache=tmp_path) == ("train", "validation", "test")
    test = open_file(path, IMAGES, split="test")
    assert test.columns["label"].classes == ("bird", "cat", "dog")
    assert test.read(np.array([0]), ["label"])["label"].tolist() == [2]
    assert open_file(path, IMAGES).rows == 3


def test_a_class_named_test_is_no_split(write, open_file):
    files = {"cat/a.png": png(2, 2), "test/a.png": png(2, 2)}
    assert open_file(write(files), IMAGES).columns["label"].classes == ("cat", "test")


def test_images_and_masks_are_pairs(write, open_file):
    classes = np.array([[0, 1], [2, 255]], np.uint8)
    palette = Image.new("P", (2, 2))
    palette.putdata([0, 1, 2, 255])
    palette.putpalette(list(range(256)) * 3)
    files = {
        "images/a.jpg": jpeg(2, 2, 9),
        "images/b.png": png(2, 2, 8),
        "masks/a.png": encoded("PNG", palette),
        "masks/b.png": encoded("PNG", Image.fromarray(classes)),
    }
    source = open_file(write(files), IMAGES)
    assert source.columns["mask"] == Column((2, 2), "uint8")
    read = source.read(np.array([1, 0]))
    assert read["image"][:, 0, 0, 0].tolist() == [8, 9]
    assert read["mask"].tolist() == [classes.tolist()] * 2


@pytest.mark.parametrize(
    ("image", "mask"),
    [
        ("image/a.jpg", "label/a.png"),
        ("images/a.jpg", "annotations/a.png"),
        ("JPEGImages/a.jpg", "SegmentationClass/a.png"),
        ("images/a.jpg", "masks/a_mask.png"),
        ("images/ISIC_1.jpg", "masks/ISIC_1_segmentation.png"),
    ],
)
def test_folders_of_images_and_labels_are_no_classes(write, open_file, image, mask):
    source = open_file(write({image: png(2, 2), mask: png(2, 2, 5, mode="L")}), IMAGES)
    assert source.read(np.array([0]), ["mask"])["mask"].tolist() == [[[5, 5], [5, 5]]]


@every_row(
    "mask",
    [
        png(2, 2, 7),
        png(2, 2, 7, mode="LA"),
        encoded("PNG", Image.fromarray(np.full((2, 2), 7, "u2"))),
    ],
)
def test_a_grey_mask_may_be_stored_in_colours_or_16_bits(folder, read_all, mask):
    path = folder({"images/a.png": png(2, 2), "masks/a.png": mask})
    assert read_all(path, IMAGES)["mask"].tolist() == [[[7, 7], [7, 7]]]


def test_splits_may_be_inside_of_the_folders_of_images_and_masks(folder):
    names = ("images/train/a", "masks/train/a", "images/val/b", "masks/val/b")
    path = folder({f"{name}.png": png(2, 2, mode="L") for name in names})
    assert list_splits(path, IMAGES, cache=path.parent / "cache") == ("train", "validation")


def test_masks_are_resized_without_mixing_classes(folder, read_all):
    classes = np.random.default_rng(0).choice([3, 200], (7, 9)).astype(np.uint8)
    files = {"images/a.png": png(7, 9), "masks/a.png": encoded("PNG", Image.fromarray(classes))}
    mask = read_all(folder(files), ImagesOptions(size=(4, 5)))["mask"]
    assert mask.shape == (1, 4, 5)
    assert set(mask.ravel().tolist()) == {3, 200}


def test_masks_of_one_bit_have_classes_0_and_1(folder, read_all):
    mask = Image.new("1", (2, 1))
    mask.putpixel((1, 0), 1)
    files = {"images/a.png": png(1, 2), "masks/a.png": encoded("PNG", mask)}
    assert read_all(folder(files), IMAGES)["mask"].tolist() == [[[0, 1]]]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, "expected PNG or JPEG files; received none"),
        ({"a/b/c.png": b"", "a/d.png": b"", "x.png": b""}, "expected images in a folder per"),
        ({"a/b/c/d.png": b"", "a/e/f/g.png": b""}, "expected images in a folder per class"),
        ({"a/x.png": b"", "y.png": b""}, "expected images in a folder per class"),
        (
            {"a.png": b"", "b.webp": b""},
            "expected PNG and JPEG images only; received 1 of other kinds: b.webp",
        ),
        ({"images/a.png": b"", "masks/b.png": b""}, "expected a file a in masks"),
        (
            {"images/a.png": b"", "masks/a.png": b"", "masks/b.png": b""},
            "expected a file b in images",
        ),
        (
            {"images/a.png": b"", "images/a.jpg": b"", "masks/a.png": b""},
            "expected one file a in images",
        ),
    ],
)
def test_another_layout_is_an_error(write, open_file, tmp_path, files, expected):
    path = write(files)
    if not path.exists():
        path.mkdir()
    with pytest.raises(InvalidData, match=expected):
        open_file(path, IMAGES)


# Pixels.


def jpeg(height, width, value):
    return encoded("JPEG", Image.new("RGB", (width, height), (value,) * 3))


@pytest.mark.parametrize("channels", [1, 3])
def test_png_pixels_are_read_exactly(folder, read_all, channels):
    pixels = noise(5, 7, channels)
    options = ImagesOptions(channels=channels)
    np.testing.assert_array_equal(
        read_all(folder({"a.png": png_of(pixels)}), options)["image"], [pixels]
    )


@pytest.mark.parametrize("resample", ["bilinear", "bicubic"])
def test_resizing_covers_all_pixels_and_is_that_of_pillow(folder, read_all, resample):
    pixels = noise(64, 48)
    read = read_all(
        folder({"a.png": png_of(pixels)}), ImagesOptions(size=(8, 6), resample=resample)
    )["image"]
    means = pixels.reshape(8, 8, 6, 8, 3).mean(axis=(1, 3))
    assert abs(read[0].astype(float) - means).max() < 40  # one pixel alone would differ by 128
    again = Image.fromarray(pixels).resize((6, 8), getattr(Image.Resampling, resample.upper()))
    np.testing.assert_array_equal(read[0], np.asarray(again))


@pytest.mark.parametrize(
    ("image", "value"),
    [
        (Image.new("RGBA", (2, 2), (9, 9, 9, 0)), 9),
        (Image.new("LA", (2, 2), (9, 0)), 9),
        (Image.fromarray(np.full((2, 2), 9 * 256 + 255, np.uint16)), 9),
        (Image.new("1", (2, 2), 1), 255),
        (Image.new("L", (2, 2), 9), 9),
    ],
    ids=["RGBA", "LA", "16 bits", "1 bit", "grey"],
)
def test_other_kinds_of_png_become_8_bits(folder, read_all, image, value):
    for channels in (1, 3):
        read = read_all(folder({"a.png": encoded("PNG", image)}), ImagesOptions(channels=channels))
        assert read["image"].tolist() == np.full((1, 2, 2, channels), value).tolist()


def test_images_of_different_sizes_need_the_option_size(folder, open_file, read_all):
    path = folder({"a.png": png(3, 4), "b.png": png(5, 6)})
    with pytest.raises(
        InvalidData, match=r"birds/b.png: expected 3 × 4 pixels like a.png, or the option `size`"
    ):
        open_file(path, IMAGES)
    assert read_all(path, ImagesOptions(size=(2, 2)))["image"].shape == (2, 2, 2, 3)


def test_a_mask_of_another_size_is_an_error(folder, read_all):
    files = {"images/a.png": png(3, 3), "masks/a.png": png(2, 3, mode="L")}
    with pytest.raises(InvalidData, match=r"masks/a.png: expected 3 × 3 pixels; received 2 × 3"):
        read_all(folder(files), IMAGES)


def test_a_mask_with_colours_is_an_error(folder, read_all):
    files = {"images/a.png": png(3, 3), "masks/a.png": png_of(noise(3, 3))}
    with pytest.raises(InvalidData, match=r"masks/a.png: expected a mask with one channel"):
        read_all(folder(files), IMAGES)
    files["masks/a.png"] = encoded("PNG", Image.fromarray(np.full((3, 3), 256, np.uint16)))
    with pytest.raises(InvalidData, match=r"masks/a.png: .* values above 255"):
        read_all(folder(files), IMAGES)


# Hostile files.


def png_header(height, width):
    """A PNG file that claims a size and has almost no data."""

    def chunk(kind, content):
        checksum = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + checksum

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(b"\0" * 100)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize("side", [9000, 12_000, 60_000, 2**31 - 1])
def test_an_image_bomb_is_rejected_by_its_header(write, open_file, read_all, side):
    path = write({"a.png": png_header(side, side)})
    with pytest.raises(InvalidData, match=r"a.png: expected"):
        open_file(path, IMAGES)
    with pytest.raises(InvalidData, match=r"a.png: expected"):
        read_all(path, ImagesOptions(size=(2, 2)))


def test_compressed_text_in_a_png_is_limited(folder, read_all):
    bomb = zlib.compress(b"\0" * 200_000_000)
    content = b"zTXt" + b"key\0\0" + bomb
    chunk = struct.pack(">I", len(content) - 4) + content + struct.pack(">I", zlib.crc32(content))
    image = png(2, 2)
    with pytest.raises(InvalidData, match="an undamaged image"):
        read_all(folder({"a.png": image[:33] + chunk + image[33:]}), IMAGES)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "a PNG or JPEG image"),
        (b"GIF89a" + b"\0" * 50, "a PNG or JPEG image"),
        (b"BM" + b"\0" * 50, "a PNG or JPEG image"),
        (b"\x89PNG\r\n\x1a\n", "a"),
        (png_of(noise(50, 50))[:200], "an undamaged image"),
        (encoded("JPEG", Image.fromarray(noise(50, 50)))[:1000], "an undamaged image"),
        (png_header(20, 20), "an undamaged image"),
    ],
    ids=range(7),
)
def test_a_damaged_image_is_an_error_that_names_it(write, read_all, content, expected):
    with pytest.raises(InvalidData, match=rf"x.png: expected {expected}"):
        read_all(write({"x.png": content}), ImagesOptions(size=(20, 20)))


def test_no_changed_byte_of_a_png_does_more_than_raise_an_error(folder, read_all):
    content = png_of(noise(4, 4))
    path = folder({"a.png": content})
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 0xFF
        (path / "a.png").write_bytes(changed)
        try:
            read = read_all(path, ImagesOptions(size=(4, 4)))["image"]
        except InvalidData:
            continue
        assert read.shape == (1, 4, 4, 3)


def test_a_file_beyond_the_limit_is_not_read(write, read_all):
    with pytest.raises(InvalidData, match="at most 50 bytes"):
        read_all(write({"a.png": png(20, 20)}), IMAGES, limits=Limits(record_bytes=50))


def test_a_name_that_is_not_utf_8_is_an_error(folder, open_file):
    path = folder({"a.png": png(2, 2)})
    with open(os.fsencode(path) + b"/\xff.png", "wb") as stream:
        stream.write(png(2, 2))
    with pytest.raises(InvalidData, match=r"birds/\\udcff.png: expected a name in UTF-8") as caught:
        open_file(path, IMAGES)
    str(caught.value).encode()


def test_a_size_behind_long_metadata_is_found(write, open_file):
    exif = Image.Exif()
    exif[0x010E] = "x" * 60_000
    stream = io.BytesIO()
    Image.new("RGB", (4, 3)).save(stream, "JPEG", exif=exif, comment=b"y" * 60_000)
    assert open_file(write({"a.jpg": stream.getvalue()}), IMAGES).columns["image"].shape == (
        3,
        4,
        3,
    )


def test_sizes_are_read_once_until_a_file_changes(folder, open_file, monkeypatch):
    path = folder({"a.png": png(3, 4), "b.png": png(3, 4)})
    calls = []
    original = images.image_size
    monkeypatch.setattr(images, "image_size", lambda *args: calls.append(1) or original(*args))
    for _ in range(2):
        assert open_file(path, IMAGES).columns["image"].shape == (3, 4, 3)
    read = len(calls)
    (path / "b.png").write_bytes(png(5, 5))
    with pytest.raises(InvalidData, match="or the option `size`"):
        open_file(path, IMAGES)
    assert len(calls) > read > 0


def test_too_many_files_are_an_error(write, open_file):
    files = {f"{number}.png": png(2, 2) for number in range(6)}
    with pytest.raises(InvalidData, match="at most 5 files"):
        open_file(write(files), IMAGES, limits=Limits(files=5))


@pytest.mark.parametrize("target", ["../secret.png", "/etc/passwd", "loop.png", ".."])
def test_a_link_out_of_the_folder_is_an_error(folder, open_file, tmp_path, target):
    path = folder({"a.png": png(2, 2)})
    (tmp_path / "secret.png").write_bytes(png(2, 2))
    (path / "loop.png").symlink_to(target)
    with pytest.raises(InvalidData, match=r"loop.png: expected a link to a file in the same"):
        open_file(path, IMAGES)


def test_a_linked_folder_is_an_error(folder, open_file, tmp_path):
    path = folder({"cat/a.png": png(2, 2)})
    (path / "dog").symlink_to(path / "cat")
    with pytest.raises(InvalidData, match=r"birds/dog: expected a link to a file"):
        open_file(path, IMAGES)


def test_a_pipe_is_an_error_and_not_opened(folder, open_file):
    path = folder({"a.png": png(2, 2)})
    os.mkfifo(path / "b.png")
    with pytest.raises(InvalidData, match=r"b.png: expected a file; received a special file"):
        open_file(path, IMAGES)


# What is left out, and what is bad.


def test_other_files_are_left_out_and_counted(write, open_file):
    others = ["LICENSE", "a/vectorize.py", "cat/1.xml", "cat/2.XML", "readme[1].pdf", "x.txt"]
    source = open_file(write(ANIMALS | dict.fromkeys(others, b"x")), IMAGES)
    assert source.rows == 3
    assert {one.name: one.reason for one in source.left_out} == {
        "a": "a folder without images, which is not a class",
        ".pdf": "1 file, not images",
        ".py": "1 file, not images",
        ".txt": "1 file, not images",
        ".xml": "2 files, not images",
        "LICENSE": "1 file, not images",
    }


@pytest.mark.parametrize("kind", ["gif", "BMP", "webp", "tiff"])
def test_pictures_of_other_kinds_are_not_left_out(write, open_file, kind):
    others = {f"cat/{number}.{kind}": b"" for number in range(30)}
    with pytest.raises(InvalidData, match=rf"30 of other kinds: cat/0.{kind}, .* and 10 more"):
        open_file(write(ANIMALS | others), IMAGES)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (encoded("GIF", Image.new("L", (2, 2))), "a GIF image"),
        (encoded("BMP", Image.new("L", (2, 2))), "a BMP image"),
        (encoded("TIFF", Image.new("L", (2, 2))), "a TIFF image"),
        (encoded("WEBP", Image.new("RGB", (2, 2))), "a WebP image"),
        (b"", "an empty file"),
        (b"<!DOCTYPE html>", "a page of HTML or XML"),
        (b"version https://git-lfs.github.com/spec/v1", "a pointer of Git LFS"),
    ],
)
def test_a_file_of_another_kind_is_named_as_such(write, open_file, content, kind):
    with pytest.raises(InvalidData, match=rf"cat/c.png: expected a PNG or JPEG image; .* {kind}"):
        open_file(write(ANIMALS | {"cat/c.png": content}), IMAGES)


def test_all_bad_files_are_named_at_once(write, open_file):
    damaged = png_of(noise(3, 4))[:60]
    files = {f"cat/{number:02}.png": damaged for number in range(25)}
    source = open_file(write(ANIMALS | files), IMAGES)
    for read in (source.check, lambda: source.read(np.arange(source.rows))):
        with pytest.raises(InvalidData, match=r"25 others: .*cat/00.png .*cat/19.png .* 5 more"):
            read()
    headers = {f"dog/{number}.png": b"" for number in range(3)}
    with pytest.raises(InvalidData, match=r"3 others: .*dog/0.png \(an empty file\).*dog/2.png"):
        open_file(write(ANIMALS | headers), IMAGES)


def test_an_empty_folder_and_a_class_without_training_images_are_said(tmp_path, open_file):
    for name in ("train/cat/1.png", "train/dog/1.png", "test/cat/1.png", "test/eel/1.png"):
        path = tmp_path / "it" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(2, 2))
    (tmp_path / "it" / "train" / "rabbit").mkdir()
    source = open_file(tmp_path / "it", IMAGES)
    assert source.columns["label"].classes == ("cat", "dog", "eel")
    assert {one.name: one.reason for one in source.left_out} == {
        "train/rabbit": "a folder without images, which is not a class",
        "eel": "a class without images for training",
    }


def test_names_with_accents_in_two_encodings_are_one_class(write, open_file):
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    files = {f"{composed}/1.png": png(2, 2, 1), f"{decomposed}/2.png": png(2, 2, 2)}
    source = open_file(write(files | {"cafz/1.png": png(2, 2, 3)}), IMAGES)
    assert source.columns["label"].classes == (composed, "cafz")
    assert source.read(np.arange(3))["label"].tolist() == [0, 1, 0]


def test_names_that_windows_forbids_are_names(write, open_file):
    files = {"a:b?/con.png": png(2, 2), "nul/" + "x" * 240 + ".png": png(2, 2)}
    assert open_file(write(files), IMAGES).columns["label"].classes == ("a:b?", "nul")


def test_images_beside_several_splits_are_an_error(write, open_file, tmp_path):
    files = {f"{folder}/cat/1.png": png(2, 2) for folder in ("train", "test", "extra")}
    path = write(files)
    with pytest.raises(InvalidData, match=r"extra/cat/1.png: expected a file in a folder train"):
        open_file(path, IMAGES)
    options = ImagesOptions(splits={"train": "train/*", "validation": "extra/*"})
    assert list_splits(path, options, cache=tmp_path) == ("train", "validation")
    assert open_file(path, options, split="validation").columns["label"].classes == ("cat",)


@pytest.mark.parametrize(
    ("training", "evaluation"),
    [
        ("train", "test1"),
        ("seg_train/seg_train", "seg_test/seg_test"),
        ("training_set", "test_set"),
        ("Train", "Val"),
    ],
)
def test_folders_with_a_word_for_each_split_are_splits(
    write, open_file, tmp_path, training, evaluation
):
    files = {f"it/{training}/{kind}/1.png": png(2, 2) for kind in ("cat", "dog")}
    path = write(files | {f"it/{evaluation}/cat/{number}.png": png(2, 2) for number in range(3)})
    assert len(list_splits(path, IMAGES, cache=tmp_path)) == 2
    source = open_file(path, IMAGES)
    assert (source.rows, source.columns["label"].classes) == (2, ("cat", "dog"))


# Photos.


def photo(kind, orientation):
    """Red above blue, as it is stored; the orientation says how to turn it."""
    pixels = np.zeros((4, 2, 3), np.uint8)
    pixels[:2, :, 0] = pixels[2:, :, 2] = 255
    exif = Image.Exif()
    exif[0x0112] = orientation
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind, exif=exif, quality=100, subsampling=0)
    return stream.getvalue()


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_photos_are_turned_as_their_metadata_says(folder, open_file, kind, orientation):
    content = photo(kind, orientation)
    source = open_file(folder({"a.png": content}), IMAGES)
    expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(content))))
    assert source.columns["image"].shape == expected.shape
    np.testing.assert_array_equal(source.read(np.array([0]))["image"][0], expected)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_damaged_metadata_do_not_matter(folder, read_all):
    content = photo("JPEG", 6)
    for damage in (b"Exif\0\0XX", b"Exif\0\0MM\0*\xff\xff\xff\xff"):
        at = content.index(b"Exif")
        changed = content[:at] + damage + content[at + len(damage) :]
        read = read_all(folder({"a.png": changed}), ImagesOptions(size=(4, 2)))
        assert read["image"].shape == (1, 4, 2, 3)


def transparent_palette():
    image = Image.new("P", (2, 2), 1)
    image.putpalette([0, 0, 0, 250, 120, 60])
    image.info["transparency"] = 1
    return image


@pytest.mark.parametrize(
    ("kind", "image", "pixel"),
    [
        ("JPEG", Image.new("CMYK", (8, 8), (0, 255, 255, 0)), (254, 0, 0)),
        ("PNG", Image.fromarray(np.full((2, 2), 0xAB12, np.uint16)), (0xAB,) * 3),
        ("PNG", transparent_palette(), (250, 120, 60)),
        ("PNG", Image.new("LA", (2, 2), (90, 0)), (90, 90, 90)),
        ("PNG", Image.new("RGBA", (2, 2), (9, 8, 7, 100)), (9, 8, 7)),
        ("PNG", Image.new("1", (2, 2), 1), (255, 255, 255)),
    ],
)
def test_other_modes_are_read_as_pillow_reads_them(folder, read_all, kind, image, pixel):
    read = read_all(folder({"a.png": encoded(kind, image)}), IMAGES)["image"]
    np.testing.assert_allclose(read[0, 0, 0], pixel, atol=2)
