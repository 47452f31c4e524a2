import type { Budgets } from '../../contract/budgets.ts'
import type { Reading } from '../reading.ts'
import type { Access } from '../sql.ts'
import type { Drive } from '../drive.ts'
import { endLeases, extendPermits, nextLeaseEndUs, releasePermits } from './permits.ts'
import { acquire, cancelReservation, confirm, forget, inspectBucket, reserve } from './requests.ts'
import { beginTickets, dropOrphans, dropTickets, removeTickets, ticketsOf } from './tickets.ts'

/** The budgets of a store. @param wake tells other processes that jobs may start */
export function budgetsOf(
  drive: <T>(how: Drive, work: (access: Access) => Reading<T>) => Promise<T>,
  wake: () => void,
): Budgets {
  /** Runs a step that answers whether jobs may start. */
  const waking = async (work: (access: Access) => Reading<boolean>, how: Drive = 'take'): Promise<boolean> => {
    const woke = await drive(how, work)
    if (woke) wake()
    return woke
  }
  return {
    acquire: (requests, own) => drive('decide', (access) => acquire(access, requests, own ?? null)),
    reserve: (request, atMostUs) => drive('decide', (access) => reserve(access, request, atMostUs)),
    confirm: (id) => drive('decide', (access) => confirm(access, id)),
    cancel: (id) => drive('adjust', (access) => cancelReservation(access, id)),
    async release(permits) {
      await waking((access) => releasePermits(access, permits))
    },
    extend: (permits, leaseUs) => drive('take', (access) => extendPermits(access, permits, leaseUs)),
    inspect: (bucket) => drive('look', (access) => inspectBucket(access, bucket)),
    forget: (bucket) => drive('adjust', (access) => forget(access, bucket)),
    begin: (worker, tickets) => drive('take', (access) => beginTickets(access, worker, tickets)),
    async remove(worker, seqs) {
      await waking((access) => removeTickets(access, worker, seqs), 'keep')
    },
    drop: (ids) => drive('once', (access) => dropTickets(access, ids)),
    tickets: (ids) => drive('read', (access) => ticketsOf(access, ids)),
    async tidy() {
      const returned = await waking((access) => endLeases(access, null))
      const dropped = await waking((access) => dropOrphans(access))
      return { woke: returned || dropped, nextUs: await drive('read', nextLeaseEndUs) }
    },
  }
}
