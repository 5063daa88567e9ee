// The keys of the list of jobs.
import { observable } from "../../../hooks.ts";

export const SHORTCUTS = [
  ["j", "next", "Next row"],
  ["k", "previous", "Previous row"],
  ["x", "select", "Select the row, or unselect it"],
  ["Enter", "open", "Open the job or the study"],
  ["e", "unfold", "Unfold a study, or fold it"],
  ["/", "search", "Search"],
  ["n", "next-page", "Next page"],
  ["p", "previous-page", "Previous page"],
  ["Escape", "clear", "Clear the selection"],
  ["?", "help", "This help"],
] as const;

export type Shortcut = (typeof SHORTCUTS)[number][1];

interface Pressed {
  key: string;
  ctrlKey: boolean;
  metaKey: boolean;
  altKey: boolean;
}

const BY_KEY = new Map<string, Shortcut>(SHORTCUTS.map(([key, shortcut]) => [key, shortcut]));
const STORAGE_KEY = "ampcore-shortcuts";

/** Whether keys without Ctrl or Alt are shortcuts: who enters text by voice turns them off. */
export const areLettersOn = observable(storedChoice());

/** What a key does; null for a key that is typed into a field, or with a modifier of the browser. */
export function shortcutOf(pressed: Pressed, target: { tagName: string; type?: string }, lettersOn: boolean): Shortcut | null {
  if (pressed.ctrlKey || pressed.metaKey || pressed.altKey || isField(target)) return null;
  if (pressed.key === "Enter") return target.tagName === "TR" ? "open" : null; // a link or button has its own
  if (!lettersOn && pressed.key.length === 1) return null;
  return BY_KEY.get(pressed.key) ?? null;
}

function isField({ tagName, type }: { tagName: string; type?: string }): boolean {
  return tagName === "TEXTAREA" || tagName === "SELECT" || (tagName === "INPUT" && type !== "checkbox");
}

export function setLettersOn(isOn: boolean): void {
  areLettersOn.set(isOn);
  try {
    localStorage.setItem(STORAGE_KEY, isOn ? "on" : "off");
  } catch {
    // Without storage the choice lasts until the page is reloaded.
  }
}

function storedChoice(): boolean {
  try {
    return localStorage.getItem(STORAGE_KEY) !== "off";
  } catch {
    return true;
  }
}
