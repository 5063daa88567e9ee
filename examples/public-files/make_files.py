"""Make small files as those of public data sets are made: their layouts, headers and quirks.

python make_files.py NAME … makes each of them in the current folder; --list names them. The values
are random, but targets depend on inputs. ampctl dataset upload takes each file as it is.
"""

import argparse
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

RANDOM = np.random.default_rng(7)
PETS = ("Cat", "Dog")
OBJECTS = ("airplane", "automobile", "bird")


def wine(folder: Path) -> Path:
    """UCI wine: no header, the class in the first column."""
    rows = []
    for number in range(178):
        kind = number % 3 + 1
        rows.append(f"{kind},{12 + kind + noise():.2f},{kind * 2 + noise():.2f},{700 + number * 3}")
    return write(folder / "wine.data", lines(rows))


def wine_quality(folder: Path) -> Path:
    """UCI wine quality: semicolons, quoted names with spaces."""
    rows = ['"fixed acidity";"volatile acidity";"pH";"quality"']
    for _ in range(300):
        acidity = 7 + noise()
        rows.append(
            f"{acidity:.1f};{0.7 + noise() / 9:.2f};3.{RANDOM.integers(9)};{round(acidity)}"
        )
    return write(folder / "winequality-red.csv", lines(rows))


def adult(folder: Path) -> Path:
    """UCI adult: no header, a space after each comma, `?` for unknown, an empty last line."""
    rows = []
    for number in range(400):
        age, work = 20 + number % 50, choice(["Private", "State-gov", "?"])
        income = ">50K" if age > 45 else "<=50K"
        rows.append(f"{age}, {work}, {77000 + number * 7}, Bachelors, {income}")
    return write(folder / "adult.data", lines([*rows, ""]))


def breast_cancer(folder: Path) -> Path:
    """Breast cancer Wisconsin, as a table: a delimiter at the end of the header."""
    rows = ['id,diagnosis,radius_mean,"concave points_mean",']
    for number in range(200):
        is_malignant = number % 3 == 0
        radius = (18 if is_malignant else 12) + noise()
        diagnosis = "M" if is_malignant else "B"
        rows.append(f"{842300 + number * 11},{diagnosis},{radius:.2f},0.{number + 1}")
    return write(folder / "breast-cancer.csv", lines(rows))


def telco(folder: Path) -> Path:
    """Telco churn: a blank for a number of new customers."""
    rows = ["customerID,gender,tenure,MonthlyCharges,TotalCharges,Churn"]
    for number in range(300):
        tenure = number % 60
        total = f"{tenure * 29.85:.2f}" if tenure else " "
        churn = "Yes" if tenure < 20 else "No"
        gender = choice(["Female", "Male"])
        rows.append(f"{7590 + number}-VHVEG,{gender},{tenure},29.85,{total},{churn}")
    return write(folder / "telco-churn.csv", lines(rows))


def titanic(folder: Path) -> Path:
    """Titanic: commas and quotation marks in quoted names, missing ages and cabins."""
    rows = ["PassengerId,Survived,Pclass,Name,Sex,Age,Cabin"]
    for number in range(1, 300):
        sex = choice(["male", "female"])
        age = "" if number % 5 == 0 else f"{number % 70}"
        name = f'"Cumings, Mrs. John Bradley (Florence ""Flo"" Briggs {number})"'
        cabin = f"C{number}" if number % 4 == 0 else ""
        rows.append(f"{number},{int(sex == 'female')},{number % 3 + 1},{name},{sex},{age},{cabin}")
    return write(folder / "titanic.csv", lines(rows))


def house_prices(folder: Path) -> Path:
    """House prices: `NA` is a category of PoolQC, and a missing number of LotFrontage."""
    rows = ["Id,MSZoning,LotFrontage,PoolQC,1stFlrSF,SalePrice"]
    for number in range(1, 300):
        front = "NA" if number % 6 == 0 else str(50 + number % 40)
        pool, area = ("Ex" if number % 20 == 0 else "NA"), 800 + number * 3
        rows.append(f"{number},{choice(['RL', 'RM'])},{front},{pool},{area},{area * 120}")
    return write(folder / "house-prices.csv", lines(rows))


def movielens(folder: Path) -> Path:
    """MovieLens: `::` between cells, no header, the time of each rating."""
    rows = []
    for number in range(600):
        user = number % 50 + 1
        rows.append(f"{user}::{RANDOM.integers(1, 90)}::{user % 5 + 1}::{978300760 + number * 31}")
    return write(folder / "ratings.dat", lines(rows))


def movies(folder: Path) -> Path:
    """The films of MovieLens: Latin-1."""
    kinds = ("Comedy", "Drama")
    rows = [
        f"{number}::Les Misérables, part {number} of a long story (1995)::{kinds[number % 2]}"
        for number in range(1, 300)
    ]
    return write(folder / "movies.dat", lines(rows).encode("latin-1"))


def medmnist(folder: Path) -> Path:
    """MedMNIST: an archive with the arrays of three splits, labels of shape (n, 1)."""
    arrays = {}
    for split, count in (("train", 200), ("val", 40), ("test", 40)):
        labels = np.arange(count, dtype=np.uint8)[:, None] % 3
        arrays[f"{split}_images"] = pictures(labels.ravel(), side=28)[..., 0]
        arrays[f"{split}_labels"] = labels
    np.savez(folder / "organmnist.npz", **arrays)
    return folder / "organmnist.npz"


def cats_and_dogs(folder: Path) -> Path:
    """Cats and dogs: sizes differ, and other files lie beside the pictures."""
    top = folder / "PetImages"
    for number, label in enumerate([0, 1] * 60):
        side = 70 + number % 9
        path = top / PETS[label] / f"{number}.jpg"
        save(pictures([label], side=side)[0], path)
    for pet in PETS:
        (top / pet / "Thumbs.db").write_bytes(b"\xd0\xcf\x11\xe0")
    (top / "readme[1].txt").write_text("about pets")
    (top / "LICENSE").write_text("a licence")
    return top


def oxford_pets(folder: Path) -> Path:
    """Oxford pets: masks of 1, 2 and 3. The folder `annotations/trimaps` is called `masks` here."""
    return masked(folder / "oxford-pets", lambda mask: Image.fromarray(mask + 1))


def pascal_voc(folder: Path) -> Path:
    """Pascal VOC: masks with a palette; 255 is the border of objects."""

    def with_palette(mask: Any) -> Image.Image:
        values = mask.copy()
        values[:, 0] = 255
        image = Image.fromarray(values, "L").convert("P")
        image.putpalette([number * 37 % 256 for number in range(768)])
        image.putdata(values.ravel().tolist())
        return image

    return masked(folder / "pascal-voc", with_palette)


def kaggle_tfrecords(folder: Path) -> Path:
    """TFRecords of Kaggle, `train00-60.tfrec`: a picture, a class and an id in each record."""
    import tensorflow as tf

    top = folder / "flowers-tfrec"
    top.mkdir()
    for split, count in (("train", 60), ("val", 40)):
        for shard in range(2):
            with tf.io.TFRecordWriter(str(top / f"{split}{shard:02}-{count}.tfrec")) as writer:
                for number in range(count):
                    label = number % 3
                    content = encode(pictures([label], side=24)[0], "JPEG")
                    feature = {
                        "class": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                        "id": bytes_feature(tf, f"{split}-{shard}-{number}".encode()),
                        "image": bytes_feature(tf, content),
                    }
                    example = tf.train.Example(features=tf.train.Features(feature=feature))
                    writer.write(example.SerializeToString())
    return top


def cifar_folders(folder: Path) -> Path:
    """CIFAR as folders: `train/CLASS/0001.png` and `test/CLASS/0001.png`."""
    top = folder / "cifar"
    for split, count in (("train", 120), ("test", 30)):
        for number in range(count):
            name = OBJECTS[number % 3]
            path = top / split / name / f"{number:04}.png"
            save(pictures([number % 3], side=32)[0], path)
    return top


def hugging_face(folder: Path) -> Path:
    """Parquet shards of Hugging Face: pictures as {bytes, path}, class names in the metadata."""
    top = folder / "beans"
    (top / "data").mkdir(parents=True)
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    features = {
        "image": {"_type": "Image"},
        "labels": {"names": list(OBJECTS), "_type": "ClassLabel"},
    }
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    schema = pa.schema([("image", kind), ("labels", pa.int64())], metadata)
    for split, shards in (("train", 2), ("validation", 1)):
        for shard in range(shards):
            labels = [number % 3 for number in range(60)]
            images = [
                {"bytes": encode(picture, "JPEG"), "path": None}
                for picture in pictures(labels, side=24)
            ]
            table = pa.table([pa.array(images, kind), pa.array(labels)], schema=schema)
            name = f"{split}-{shard:05}-of-{shards:05}.parquet"
            pq.write_table(table, top / "data" / name)
    return top


def spark(folder: Path) -> Path:
    """A table that Spark has written: parts, checksums, and a mark that it is complete."""
    top = folder / "clicks"
    top.mkdir()
    for part in range(3):
        age = RANDOM.integers(18, 80, 80)
        table = pa.table(
            {
                "age": pa.array(age, pa.int32()),
                "country": RANDOM.choice(["DE", "FR", "IT"], 80),
                "clicked": age > 45,
            }
        )
        name = f"part-{part:05}-8c1f-c000.snappy.parquet"
        pq.write_table(table, top / name, compression="snappy")
        (top / f".{name}.crc").write_bytes(b"crc\0")
    (top / "_SUCCESS").touch()
    return top


def links(folder: Path) -> Path:
    """A hub's or DVC's cache: a folder of links to files with names that are digests."""
    blobs, top = folder / "blobs", folder / "snapshot"
    blobs.mkdir()
    top.mkdir()
    for part in range(2):
        x = RANDOM.normal(size=100)
        pq.write_table(pa.table({"x": x, "y": x * 3 + 1}), blobs / (f"{part}f" * 8))
        (top / f"part-{part}.parquet").symlink_to(blobs / (f"{part}f" * 8))
    return top


MAKERS: dict[str, Callable[[Path], Path]] = {
    "wine": wine,
    "wine-quality": wine_quality,
    "adult": adult,
    "breast-cancer": breast_cancer,
    "telco-churn": telco,
    "titanic": titanic,
    "house-prices": house_prices,
    "movielens": movielens,
    "movielens-films": movies,
    "medmnist": medmnist,
    "cats-and-dogs": cats_and_dogs,
    "oxford-pets": oxford_pets,
    "pascal-voc": pascal_voc,
    "kaggle-tfrecords": kaggle_tfrecords,
    "cifar-folders": cifar_folders,
    "hugging-face": hugging_face,
    "spark": spark,
    "links": links,
}


def noise() -> float:
    """A random number around 0."""
    return float(RANDOM.normal()) / 3


def choice(names: list[str]) -> str:
    """One of the names."""
    return names[RANDOM.integers(len(names))]


def lines(rows: list[str]) -> str:
    """The rows as lines."""
    return "".join(f"{row}\n" for row in rows)


def write(path: Path, content: str | bytes) -> Path:
    """Write a file."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def pictures(labels: Any, side: int) -> Any:
    """Noise whose brightness is the class: (n, side, side, 3) of uint8."""
    low = np.asarray(labels)[:, None, None, None] * 60
    noise_values = RANDOM.integers(0, 60, (len(low), side, side, 3))
    return (low + noise_values).astype(np.uint8)


def masked(top: Path, as_mask: Callable[[Any], Image.Image]) -> Path:
    """Pictures in `images`, and what `as_mask` makes of 0, 1 and 2 in `masks`."""
    for number in range(40):
        mask = RANDOM.integers(0, 3, (4, 4), np.uint8).repeat(8, 0).repeat(8, 1)
        save(np.stack([mask * 80] * 3, axis=-1), top / "images" / f"pet_{number}.jpg")
        path = top / "masks" / f"pet_{number}.png"
        path.parent.mkdir(exist_ok=True)
        as_mask(mask).save(path)
    return top


def save(pixels: Any, path: Path) -> None:
    """Write a picture in the format of its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def encode(pixels: Any, kind: str) -> bytes:
    """The bytes of a picture."""
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


def bytes_feature(tf: Any, content: bytes) -> Any:
    """A feature with one value of bytes."""
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[content]))


def main() -> None:
    """Make the files, and print their paths."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *MAKERS])
    parser.add_argument("--list", action="store_true", help="print the names")
    arguments = parser.parse_args()
    if arguments.list or not arguments.names:
        sys.exit("\n".join(f"{name}: {make.__doc__}" for name, make in MAKERS.items()))
    for name in arguments.names:
        print(MAKERS[name](Path()))


if __name__ == "__main__":
    main()
