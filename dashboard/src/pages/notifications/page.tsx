// The page of notifications: who gets messages of the project, and how they were sent.
import { useState } from "preact/hooks";
import { sendJson } from "../../api/request.ts";
import type { NewSubscription, Subscription, SubscriptionPage } from "../../api/types.ts";
import { usePoll } from "../../api/use-poll.ts";
import { Badge } from "../../components/badge.tsx";
import { ConfirmButton } from "../../components/buttons.tsx";
import { EmptyState, LoadState } from "../../components/load-state.tsx";
import { WebhookSecret } from "../../components/webhook-secret.tsx";
import { dateTime } from "../../display/format.ts";
import { subscriptionState } from "../../display/subscriptions.ts";
import { runAndNotify } from "../../notifications.ts";
import { routeHref, type Route } from "../../router.ts";
import { useCanEditJobs } from "../../session.ts";
import { DeliveryList } from "./deliveries.tsx";
import { NewSubscriptionForm } from "./new-subscription.tsx";

const HEADINGS = ["Name", "State", "Target", "Types", "Job", "Created"];

export function NotificationsPage({ route }: { route: Route }) {
  if (!useCanEditJobs()) return <EmptyState title="Member role required">Sign in with a member's token to see where messages go.</EmptyState>;
  const id = route.path[1];
  return id ? <DeliveryList key={id} id={id} /> : <SubscriptionList />;
}

function SubscriptionList() {
  const subscriptions = usePoll<SubscriptionPage>("/notifications", 10_000);
  const [created, setCreated] = useState<NewSubscription | null>(null);
  return (
    <>
      <h1>Notifications</h1>
      <NewSubscriptionForm onCreated={(subscription) => { setCreated(subscription); subscriptions.refresh(); }} />
      {created?.secret && <WebhookSecret of={created} onClose={() => setCreated(null)} />}
      <LoadState what="notifications" of={subscriptions}>
        {({ items }) =>
          items.length > 0
            ? <SubscriptionTable subscriptions={items} onDone={subscriptions.refresh} onRotated={setCreated} />
            : <EmptyState title="No notifications">Name a receiver above, and messages about the jobs of this project go there.</EmptyState>}
      </LoadState>
    </>
  );
}

function SubscriptionTable(props: {
  subscriptions: readonly Subscription[];
  onDone: () => void;
  onRotated: (subscription: NewSubscription) => void;
}) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="All notifications">
      <table class="table" aria-label="Notifications">
        <thead><tr>{HEADINGS.map((heading) => <th key={heading} scope="col">{heading}</th>)}<th scope="col"><span class="hidden">Actions</span></th></tr></thead>
        <tbody>
          {props.subscriptions.map((subscription) => <SubscriptionRow key={subscription.id} subscription={subscription} {...props} />)}
        </tbody>
      </table>
    </div>
  );
}

function SubscriptionRow({ subscription, onDone, onRotated }: {
  subscription: Subscription;
  onDone: () => void;
  onRotated: (subscription: NewSubscription) => void;
}) {
  const { id, name } = subscription;
  const act = async (done: string, method: string, path: string, body?: unknown) => {
    await runAndNotify(done, () => sendJson(method, `/notifications/${id}${path}`, body));
    onDone();
  };
  const rotate = async () => {
    await runAndNotify("", async () => onRotated(await sendJson<NewSubscription>("POST", `/notifications/${id}/rotate`)));
    onDone();
  };
  const isDisabled = subscription.disabled_at !== null;
  return (
    <tr>
      <td class="break"><a href={routeHref(["notifications", id])}>{name}</a></td>
      <td title={subscription.disabled_reason ?? undefined}><Badge state={subscriptionState(subscription)} /></td>
      <td class="break">{subscription.target}</td>
      <td>{subscription.types.join(", ")}</td>
      <td>{subscription.job_id && <a href={routeHref(["jobs", subscription.job_id])}>{subscription.job_id}</a>}</td>
      <td>{dateTime(subscription.created_at)}</td>
      <td class="actions">
        {isDisabled
          ? <button type="button" class="button" aria-label={`Enable ${name}`} onClick={() => void act(`${name} is enabled.`, "PATCH", "", { enabled: true })}>Enable</button>
          : <button type="button" class="button" aria-label={`Test ${name}`} onClick={() => void act("A test message is on its way.", "POST", "/test")}>Test</button>}
        {subscription.channel === "webhook" && (
          <ConfirmButton label="New secret" ariaLabel={`New secret for ${name}`} question={`Give ${name} a new secret?`} onConfirm={() => void rotate()}>
            For a day messages are signed with both secrets.
          </ConfirmButton>
        )}
        <ConfirmButton label="Delete" ariaLabel={`Delete ${name}`} danger question={`Delete the notification ${name}?`} onConfirm={() => void act(`${name} was deleted.`, "DELETE", "")}>
          Messages that wait are not sent. This cannot be undone.
        </ConfirmButton>
      </td>
    </tr>
  );
}
