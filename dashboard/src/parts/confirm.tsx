// A button that asks before it does something that cannot be undone.
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";

export function Confirm(props: {
  label: string;
  ariaLabel?: string;
  question: string;
  children: ComponentChildren;
  danger?: boolean;
  onYes: () => void;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const close = () => dialog.current?.close();
  return (
    <>
      <button
        type="button"
        class={`button ${props.danger ? "danger" : ""}`}
        aria-label={props.ariaLabel}
        onClick={() => dialog.current?.showModal()}
      >
        {props.label}
      </button>
      <dialog ref={dialog} aria-label={props.question} class="dialog">
        <h2>{props.question}</h2>
        <p>{props.children}</p>
        <div class="row end">
          <button type="button" class="button" onClick={close}>Keep as it is</button>
          <button
            type="button"
            class={`button ${props.danger ? "danger" : "primary"}`}
            onClick={() => {
              close();
              props.onYes();
            }}
          >
            {props.label}
          </button>
        </div>
      </dialog>
    </>
  );
}
