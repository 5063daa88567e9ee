// The corner with the notifications.
import { useObservable } from "../hooks.ts";
import { dismiss, notifications } from "../notifications.ts";

export function Notifications() {
  return (
    <div class="notifications" role="status" aria-label="Notifications">
      {useObservable(notifications).map((notification) => (
        <p key={notification.id} class={`notification ${notification.kind}`}>
          <span>{notification.text}</span>
          <button type="button" class="button quiet" aria-label="Dismiss" onClick={() => dismiss(notification.id)}>×</button>
        </p>
      ))}
    </div>
  );
}
