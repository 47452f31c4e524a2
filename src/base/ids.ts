import { V7Generator } from 'uuidv7'
import type { Clock } from './clock.ts'
import type { Random } from './random.ts'

const JOB_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const MAX_UNIX_MS = 2 ** 48 - 1

/**
 * Creates a maker of job ids: UUIDv7 (RFC 9562) in lower case, each greater as text than the one before. When the wall
 * clock steps back, the ids continue from the highest time seen and keep their order.
 *
 * @param clock whose wall clock the ids carry, in ms.
 * @param random default: the system's cryptographic source. A seeded source makes the ids of a simulation repeatable.
 */
export function createIds(clock: Pick<Clock, 'now'>, random?: Random): () => string {
  const generator = new V7Generator(
    random === undefined ? undefined : { nextUint32: () => Math.floor(random.next() * 2 ** 32) },
  )
  generator.setRollbackAllowance(MAX_UNIX_MS)
  return () => {
    const unixMs = Math.min(Math.max(0, Math.floor(clock.now())), MAX_UNIX_MS)
    return generator.generateOrResetWithTs(unixMs).toString()
  }
}

/** Whether a text is a UUIDv7 in lower case, the form of a job id. */
export function isJobId(text: string): boolean {
  return JOB_ID.test(text)
}
