// The messages to one receiver: how the last try ended, what was sent, and sending them again.
import { sendJson } from "../../api/request.ts";
import type { Delivery, DeliveryPage, Subscription } from "../../api/types.ts";
import { usePoll } from "../../api/use-poll.ts";
import { Badge } from "../../components/badge.tsx";
import { EmptyState, LoadState } from "../../components/load-state.tsx";
import { dateTime } from "../../display/format.ts";
import { subscriptionState, triesText } from "../../display/subscriptions.ts";
import { runAndNotify } from "../../notifications.ts";

const DAY_MS = 86_400_000;
const DAYS = 30;
const HEADINGS = ["Type", "State", "Tries", "Result", "Written"];

export function DeliveryList({ id }: { id: string }) {
  const subscription = usePoll<Subscription>(`/notifications/${id}`, 10_000);
  const deliveries = usePoll<DeliveryPage>(`/notifications/${id}/deliveries`, 5_000);
  const resendFailed = async () => {
    const since = new Date(Date.now() - DAYS * DAY_MS).toISOString();
    await runAndNotify("What has failed is sent again.", () => sendJson("POST", `/notifications/${id}/resend`, { since }));
    deliveries.refresh();
  };
  return (
    <>
      <p><a href="#/notifications">All notifications</a></p>
      <LoadState what="notification" of={subscription}>
        {(shown) => (
          <header class="stack">
            <div class="row"><h1>{shown.name}</h1><Badge state={subscriptionState(shown)} /></div>
            <p class="muted break">{shown.target} · {shown.types.join(", ")}</p>
            {shown.disabled_reason && <p class="callout failed" role="note">{shown.disabled_reason}</p>}
          </header>
        )}
      </LoadState>
      <LoadState what="messages" of={deliveries}>
        {({ items }) =>
          items.length === 0
            ? <EmptyState title="No messages">What is written for this receiver is listed here for {DAYS} days.</EmptyState>
            : (
              <>
                {items.some(({ state }) => state === "failed") && (
                  <div class="row"><button type="button" class="button" onClick={() => void resendFailed()}>Send again what has failed</button></div>
                )}
                <DeliveryTable deliveries={items} id={id} onDone={deliveries.refresh} />
              </>
            )}
      </LoadState>
    </>
  );
}

function DeliveryTable({ deliveries, id, onDone }: { deliveries: readonly Delivery[]; id: string; onDone: () => void }) {
  const resend = async (delivery: Delivery) => {
    await runAndNotify("The message is sent again.", () => sendJson("POST", `/notifications/${id}/deliveries/${delivery.id}/resend`));
    onDone();
  };
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Messages">
      <table class="table" aria-label="Messages">
        <thead><tr>{HEADINGS.map((heading) => <th key={heading} scope="col">{heading}</th>)}<th scope="col"><span class="hidden">Actions</span></th></tr></thead>
        <tbody>
          {deliveries.map((delivery) => (
            <tr key={delivery.id}>
              <td>{delivery.type}</td>
              <td><Badge state={delivery.state} /></td>
              <td>{triesText(delivery)}</td>
              <td class="break">{delivery.error ?? (delivery.status_code === null ? "" : `${delivery.status_code}`)}</td>
              <td>{dateTime(delivery.created_at)}</td>
              <td class="actions">
                {delivery.state !== "pending" && (
                  <button type="button" class="button" aria-label={`Send ${delivery.id} again`} onClick={() => void resend(delivery)}>Send again</button>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
