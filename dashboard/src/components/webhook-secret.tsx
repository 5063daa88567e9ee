// The secret of a webhook. It is shown once and stored nowhere in the browser.
import type { NewSubscription } from "../api/types.ts";
import { CopyButton } from "./buttons.tsx";

export function WebhookSecret({ of, onClose }: { of: NewSubscription; onClose: () => void }) {
  return (
    <section class="card stack" aria-label="New secret">
      <h2>Secret of {of.name}</h2>
      <p>The receiver verifies messages with this secret. It is shown only once.</p>
      <code class="secret">{of.secret}</code>
      <div class="row">
        <CopyButton label="Copy secret" text={of.secret ?? ""} />
        <button type="button" class="button small" onClick={onClose}>Done</button>
      </div>
    </section>
  );
}
