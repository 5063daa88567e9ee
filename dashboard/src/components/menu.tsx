// A button that unfolds a panel beside the page; Escape and a click elsewhere close it.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

/** `name` is what a screen reader says where the label is only a sign. */
export function Menu({ label, name, children }: { label: ComponentChildren; name?: string; children: ComponentChildren }) {
  const details = useRef<HTMLDetailsElement>(null);
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    const closeOutside = (event: Event) => {
      if (!details.current?.contains(event.target as Node)) close(details.current);
    };
    document.addEventListener("pointerdown", closeOutside);
    document.addEventListener("focusin", closeOutside);
    return () => {
      document.removeEventListener("pointerdown", closeOutside);
      document.removeEventListener("focusin", closeOutside);
    };
  }, []);
  const closeOnEscape = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || !details.current?.open) return;
    event.stopPropagation();
    close(details.current);
    details.current.querySelector("summary")?.focus();
  };
  return (
    <details ref={details} class="menu" onKeyDown={closeOnEscape} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary class={`button ${name ? "small quiet" : ""}`} aria-label={name} title={name}>{label}</summary>
      {isOpen && <div class="menu-panel">{children}</div>}
    </details>
  );
}

function close(details: HTMLDetailsElement | null): void {
  if (details) details.open = false;
}
