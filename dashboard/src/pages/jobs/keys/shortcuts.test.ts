import assert from "node:assert/strict";
import { test } from "node:test";
import { shortcutOf } from "./shortcuts.ts";

const NO_MODIFIER = { ctrlKey: false, metaKey: false, altKey: false };
const pressed = (key: string, tagName = "BODY", lettersOn = true, type?: string) =>
  shortcutOf({ key, ...NO_MODIFIER }, { tagName, ...(type && { type }) }, lettersOn);

test("keys move between rows, select, search and help", () => {
  assert.deepEqual(["j", "k", "x", "/", "?"].map((key) => pressed(key)), ["next", "previous", "select", "search", "help"]);
  assert.equal(pressed("y"), null);
});

test("what is typed into a field is no shortcut, but a checkbox takes no text", () => {
  for (const tagName of ["INPUT", "TEXTAREA", "SELECT"]) assert.equal(pressed("j", tagName), null);
  assert.equal(pressed("j", "INPUT", true, "search"), null);
  assert.equal(pressed("j", "INPUT", true, "checkbox"), "next");
});

test("keys with Ctrl, Alt or the command key are left to the browser", () => {
  for (const modifier of ["ctrlKey", "metaKey", "altKey"]) {
    assert.equal(shortcutOf({ key: "j", ...NO_MODIFIER, [modifier]: true }, { tagName: "TR" }, true), null);
  }
});

test("Enter opens a row, and is left to links and buttons", () => {
  assert.equal(pressed("Enter", "TR"), "open");
  assert.equal(pressed("Enter", "A"), null);
});

test("single letters can be turned off", () => {
  assert.equal(pressed("j", "TR", false), null);
  assert.equal(pressed("?", "TR", false), null);
  assert.equal(pressed("Escape", "TR", false), "clear");
  assert.equal(pressed("Enter", "TR", false), "open");
});
