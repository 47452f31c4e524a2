/** Budgets for code without jobs: it takes from the same buckets, and waits in the same wait lists. */
import type {
  BucketName,
  BucketReport,
  Confirmation,
  HeldPermit,
  ReservationAnswer,
  UnitAnswer,
  UnitRequest,
} from '../../limiter/contract/limiter.ts'

/** The queues of tickets begin with this; no queue of jobs does. */
export const TICKETS = '\u0003tickets '
/** The task of tickets. */
export const TICKET = '\u0003ticket'

/** Whether calls of plain code wait in this queue. */
export function isOfTickets(queue: string): boolean {
  return queue.startsWith(TICKETS)
}

/** The name of a queue for people: the queues of tickets have one. */
export function shownQueue(queue: string): string {
  return isOfTickets(queue) ? 'plain code' : queue
}

/** Leaves out the queues of tickets. */
export function withoutTickets<Row extends { readonly queue: string }>(rows: readonly Row[]): Row[] {
  return rows.filter(({ queue }) => !isOfTickets(queue))
}

/** A ticket that a claim of this worker has granted. */
export interface GrantedTicket {
  readonly seq: number
  /** The id of the permit that it becomes. */
  readonly permit: string
  readonly leaseUs: number
}

/** The budgets of a store for code without jobs. */
export interface Budgets {
  /**
   * Decides requests in order, as `LimitBackend.acquire` does. A lane that waits for one of its buckets, and that the
   * request does not outrank, denies it. Calls of another process do not while units lie unused beside them.
   * @param own the queue of the tickets of the process that asks; absent: all that wait deny it
   */
  acquire(requests: readonly UnitRequest[], own?: string): Promise<UnitAnswer[]>
  /** Books the exact next start behind what was granted. Denied while a lane waits for one of its buckets. */
  reserve(request: UnitRequest, atMostUs: number): Promise<ReservationAnswer>
  confirm(id: string): Promise<Confirmation>
  cancel(id: string): Promise<boolean>
  release(permits: readonly HeldPermit[]): Promise<void>
  extend(permits: readonly HeldPermit[], leaseUs: number): Promise<readonly HeldPermit[]>
  inspect(bucket: BucketName): Promise<BucketReport | null>
  /** Makes a bucket new again. Its permits stay. */
  forget(bucket: BucketName): Promise<void>
  /**
   * Turns granted tickets into permits. Returns the numbers of the tickets that the worker still held; of these the
   * limits with permits, as positions in its uses.
   */
  begin(worker: number, tickets: readonly GrantedTicket[]): Promise<ReadonlyMap<number, readonly number[]>>
  /** Removes granted tickets of the worker that hold no permits. */
  remove(worker: number, seqs: readonly number[]): Promise<void>
  /** Takes tickets out that wait, or that a claim has discarded. */
  drop(ids: readonly string[]): Promise<void>
  /** Whether these tickets are waiting, or over since a limit has dropped them; those that are gone are absent. */
  tickets(ids: readonly string[]): Promise<ReadonlyMap<string, 'waiting' | 'over'>>
  /**
   * Returns permits whose lease is over, and takes out the tickets of processes that are gone. `woke`: a lane may start.
   * `nextUs`: when the next lease ends on the store's clock; null: there is none.
   */
  tidy(): Promise<{ readonly woke: boolean; readonly nextUs: number | null }>
}

/** A store whose budgets code without jobs may use. */
export interface HasBudgets {
  readonly budgets: Budgets
}
