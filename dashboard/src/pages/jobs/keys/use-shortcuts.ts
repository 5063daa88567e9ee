// Listens for the keys of the list, and moves the focus between its rows.
import { useEffect, useRef } from "preact/hooks";
import { areLettersOn, shortcutOf, type Shortcut } from "./shortcuts.ts";

const ROWS = "table.jobs tbody tr[tabindex]";

export function useShortcuts(page: Partial<Record<Shortcut, () => void>>): void {
  const actions = useRef(page);
  actions.current = page;
  useEffect(() => {
    const run = (event: KeyboardEvent) => {
      if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
      const shortcut = shortcutOf(event, event.target as HTMLInputElement, areLettersOn.get());
      const action = shortcut && { ...ROW_ACTIONS, ...actions.current }[shortcut];
      if (!action) return;
      event.preventDefault();
      action();
    };
    document.addEventListener("keydown", run);
    return () => document.removeEventListener("keydown", run);
  }, []);
}

const ROW_ACTIONS: Partial<Record<Shortcut, () => void>> = {
  next: () => focusRow(1),
  previous: () => focusRow(-1),
  select: () => clickInRow("input[type=checkbox]"),
  open: () => clickInRow("a.name"),
  unfold: () => clickInRow("button.fold"),
  search: () => document.querySelector<HTMLElement>(".filters input[type=search]")?.focus(),
  "next-page": () => document.querySelector<HTMLElement>("a[rel=next]")?.click(),
  "previous-page": () => document.querySelector<HTMLElement>("a[rel=prev]")?.click(),
};

function currentRow(): HTMLElement | null {
  return document.activeElement?.closest<HTMLElement>(ROWS) ?? null;
}

/** Focus the row `by` places from the current one; the first one if none is focused. */
function focusRow(by: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLElement>(ROWS)];
  const row = currentRow();
  const target = row === null ? rows[0] : rows[rows.indexOf(row) + by];
  target?.focus();
  target?.scrollIntoView({ block: "nearest" });
}

function clickInRow(selector: string): void {
  currentRow()?.querySelector<HTMLElement>(selector)?.click();
}

/** The ids of the jobs in the table from top to bottom, with those of unfolded studies. */
export function listedIds(): string[] {
  return [...document.querySelectorAll<HTMLElement>("table.jobs tbody tr[data-job]")].map((row) => row.dataset["job"]!);
}
