// The people who have signed in with the provider, with their sessions, for admins.
import { usePoll } from "../api/use-poll.ts";
import { sendJson } from "../api/request.ts";
import type { Person, PersonList, PersonSession } from "../api/types.ts";
import { runAndNotify } from "../notifications.ts";
import { ConfirmButton } from "../components/buttons.tsx";
import { LoadState } from "../components/load-state.tsx";
import { dateTime } from "../display/format.ts";

const HEADINGS = ["Person", "May do", "Groups", "Signed in", "Browsers"];

export function People() {
  const people = usePoll<PersonList>("/people", 30_000);
  return (
    <LoadState what="people" of={people}>
      {({ items }) => (items.length === 0 ? <></> : <PeopleTable people={items} onDone={people.refresh} />)}
    </LoadState>
  );
}

function PeopleTable({ people, onDone }: { people: readonly Person[]; onDone: () => void }) {
  const endAccess = async (person: Person) => {
    await runAndNotify(`The access of ${nameOf(person)} has ended.`, () => sendJson("DELETE", `/people/${person.id}`));
    onDone();
  };
  return (
    <>
      <h2>People</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="All people">
        <table class="table" aria-label="People">
          <thead><tr>{HEADINGS.map((heading) => <th key={heading} scope="col">{heading}</th>)}<th scope="col"><span class="hidden">Actions</span></th></tr></thead>
          <tbody>
            {people.map((person) => (
              <tr key={person.id}>
                <td class="break">{nameOf(person)}</td>
                <td class="break">{person.grants.map(({ project, role, scopes }) => [`${role} of ${project}`, ...(scopes ?? [])].join(", ")).join("; ") || "nothing"}</td>
                <td class="break">{person.groups.join(", ")}</td>
                <td>{dateTime(person.signed_in_at)}</td>
                <td>{person.sessions.map((browser) => <Browser key={browser.id} person={person} browser={browser} onDone={onDone} />)}</td>
                <td class="actions">
                  <ConfirmButton label="End access" ariaLabel={`End the access of ${nameOf(person)}`} danger question={`End the access of ${nameOf(person)}?`} onConfirm={() => void endAccess(person)}>
                    Every browser is signed out, and the person's tokens are revoked. Who is still in a group with access can sign in again:
                    take the person out of it at the provider first.
                  </ConfirmButton>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function Browser({ person, browser, onDone }: { person: Person; browser: PersonSession; onDone: () => void }) {
  const end = async () => {
    await runAndNotify(`${nameOf(person)} is signed out there.`, () => sendJson("DELETE", `/people/${person.id}/sessions/${browser.id}`));
    onDone();
  };
  return (
    <div class="row">
      <span title={browser.user_agent ?? ""}>{browser.address}, used {dateTime(browser.used_at)}</span>
      <button type="button" class="button small quiet" aria-label={`Sign ${nameOf(person)} out of ${browser.address}`} onClick={() => void end()}>Sign out</button>
    </div>
  );
}

function nameOf(person: Person): string {
  return person.email ?? person.name;
}
