// Buttons: one that asks for confirmation, one that copies a text.
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { notify } from "../notifications.ts";

/** Opens a dialog; the action runs once the user confirms it there. */
export function ConfirmButton(props: {
  label: string;
  ariaLabel?: string;
  question: string;
  children: ComponentChildren;
  /** The buttons of the dialog; without them they say what `label` says, and Cancel. */
  confirmLabel?: string;
  closeLabel?: string;
  danger?: boolean;
  disabled?: boolean;
  onConfirm: () => void;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const close = () => dialog.current?.close();
  return (
    <>
      <button
        type="button"
        class={`button ${props.danger ? "danger" : ""}`}
        aria-label={props.ariaLabel}
        disabled={props.disabled}
        onClick={() => dialog.current?.showModal()}
      >
        {props.label}
      </button>
      <dialog ref={dialog} aria-label={props.question} class="dialog">
        <h2>{props.question}</h2>
        <p>{props.children}</p>
        <div class="row end">
          <button type="button" class="button" onClick={close}>{props.closeLabel ?? "Cancel"}</button>
          <button
            type="button"
            class={`button ${props.danger ? "danger" : "primary"}`}
            onClick={() => {
              close();
              props.onConfirm();
            }}
          >
            {props.confirmLabel ?? props.label}
          </button>
        </div>
      </dialog>
    </>
  );
}

/** Copies a text to the clipboard. */
export function CopyButton({ label, text }: { label: string; text: string }) {
  return <button type="button" class="button small" onClick={() => void copy(text)}>{label}</button>;
}

async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text); // exists only on HTTPS and on localhost
    notify("done", "Copied.");
  } catch {
    notify("failed", "The browser blocks clipboard access here. Select the text and copy it manually.");
  }
}
