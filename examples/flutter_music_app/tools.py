"""What the agents of the music app crew may do: small tools that write real Dart files.

Each writes into the run's workspace only: `current_call().resolve` refuses what leaves it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from crewlog import current_call

_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")


def write_file(path: str, content: str) -> str:
    """Writes a source file, e.g. `lib/models/track.dart`.

    Args:
        path: Where, relative to the project.
        content: The whole file.
    """
    return _write(path, content)


def list_files(folder: str = "lib") -> list[str]:
    """Lists the project's files below a folder.

    Args:
        folder: Relative to the project.
    """
    root = current_call().workspace
    start = current_call().resolve(folder)
    return sorted(str(file.relative_to(root)) for file in start.rglob("*") if file.is_file())


def design_theme(seed_color: str, dark: bool = True, font: str = "Inter") -> str:
    """Derives a Material 3 theme and writes it to `lib/theme.dart`.

    Args:
        seed_color: Six hexadecimal digits, e.g. `7C4DFF`.
        dark: Whether the app is dark.
        font: The font family.
    """
    color = seed_color.removeprefix("#").upper()
    if not re.fullmatch(r"[0-9A-F]{6}", color):
        raise ValueError(f"{seed_color!r} is no colour: give six hexadecimal digits, e.g. 7C4DFF")
    if not re.fullmatch(r"[\w ]{1,40}", font):
        raise ValueError(f"{font!r} is no font family")
    brightness = "Brightness.dark" if dark else "Brightness.light"
    return _write(
        "lib/theme.dart",
        f"""import 'package:flutter/material.dart';

/// The app's look, derived from one colour.
final ThemeData appTheme = ThemeData(
  useMaterial3: true,
  fontFamily: '{font}',
  colorScheme: ColorScheme.fromSeed(
    seedColor: const Color(0xFF{color}),
    brightness: {brightness},
  ),
);
""",
    )


def create_tables(tables: dict[str, dict[str, Literal["TEXT", "INTEGER", "REAL", "BLOB"]]]) -> str:
    """Writes the SQLite storage, `lib/data/database.dart`, with these tables.

    Args:
        tables: Columns with their types by table, e.g. `{"tracks": {"id": "TEXT"}}`; the first
            column of a table is its key.
    """
    statements: list[str] = []
    for table, columns in tables.items():
        for name in (table, *columns):
            if not _NAME.match(name):
                raise ValueError(f"{name!r} is no name: use lower case letters, digits and _")
        if not columns:
            raise ValueError(f"the table {table!r} has no columns")
        key = next(iter(columns))
        fields = ", ".join(
            f"{name} {kind}{' PRIMARY KEY' if name == key else ''}"
            for name, kind in columns.items()
        )
        statements.append(f"    await db.execute('CREATE TABLE {table} ({fields})');")
    body = "\n".join(statements)
    return _write(
        "lib/data/database.dart",
        f"""import 'package:path/path.dart';
import 'package:sqflite/sqflite.dart';

/// Opens the library's database, and creates its tables at the first start.
Future<Database> openLibrary() async {{
  final path = join(await getDatabasesPath(), 'library.db');
  return openDatabase(path, version: 1, onCreate: (db, _) async {{
{body}
  }});
}}
""",
    )


def configure_audio(
    category: Literal["music", "speech"] = "music", background: bool = True, crossfade_ms: int = 0
) -> str:
    """Configures the audio session and writes it to `lib/audio/session.dart`.

    Args:
        category: What is played.
        background: Whether it plays on while the app is in the background.
        crossfade_ms: Milliseconds by which tracks overlap.
    """
    preset = "music" if category == "music" else "speech"
    return _write(
        "lib/audio/session.dart",
        f"""import 'package:audio_session/audio_session.dart';

const bool playsInBackground = {str(background).lower()};
const Duration crossfade = Duration(milliseconds: {max(0, crossfade_ms)});

/// Tells the system what we play, so that calls and other apps interrupt it rightly.
Future<void> configureSession() async {{
  final session = await AudioSession.instance;
  await session.configure(const AudioSessionConfiguration.{preset}());
}}
""",
    )


def _write(path: str, content: str) -> str:
    """Writes a file whole or not at all, so that a repeated call leaves the same file."""
    call = current_call()
    target = call.resolve(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.{call.call}")
    fresh.write_text(content, encoding="utf-8")
    fresh.replace(target)
    return f"{Path(path)}: {content.count(chr(10))} lines written"
