// The form that sends messages of the project to a new receiver.
import { useState } from "preact/hooks";
import { toApiError } from "../../api/connection.ts";
import { sendJson } from "../../api/request.ts";
import type { NewSubscription } from "../../api/types.ts";
import { TYPE_GROUPS } from "../../display/subscriptions.ts";
import { useOneAtATime } from "../../hooks.ts";
import { notify } from "../../notifications.ts";

export function NewSubscriptionForm({ onCreated }: { onCreated: (subscription: NewSubscription) => void }) {
  const [target, setTarget] = useState("");
  const [name, setName] = useState("");
  const [types, setTypes] = useState("ends");
  const [create, isCreating] = useOneAtATime(async () => {
    const chosen = TYPE_GROUPS[types]?.types;
    try {
      onCreated(await sendJson<NewSubscription>("POST", "/notifications", { target, ...(name && { name }), ...(chosen && { types: chosen }) }));
      setTarget((now) => (now === target ? "" : now)); // the next one may be typed already
      setName((now) => (now === name ? "" : now));
    } catch (error) {
      notify("failed", toApiError(error).message);
    }
  });
  return (
    <form
      class="card filters"
      aria-label="Create notification"
      onSubmit={(event) => {
        event.preventDefault();
        create();
      }}
    >
      <label class="field grow"><span>Target (https://…, slack://…, mailto:…)</span>
        <input required maxLength={2000} value={target} onInput={(event) => setTarget(event.currentTarget.value)} />
      </label>
      <label class="field"><span>Name</span>
        <input maxLength={200} placeholder="made of the target" value={name} onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      <label class="field"><span>Messages about</span>
        <select value={types} onChange={(event) => setTypes(event.currentTarget.value)}>
          {Object.entries(TYPE_GROUPS).map(([key, { label }]) => <option key={key} value={key}>{label}</option>)}
        </select>
      </label>
      <button type="submit" class="button primary" disabled={isCreating}>Create</button>
    </form>
  );
}
