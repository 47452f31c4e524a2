import { getRandomValues } from 'node:crypto'
import { V7Generator } from 'uuidv7'
import type { Clock } from './clock.ts'
import type { Random } from './random.ts'

const JOB_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const MAX_UNIX_MS = 2 ** 48 - 1

/** Random words for many ids: the system is asked once for all of them. */
const words = new Uint32Array(1024)
let wordsUsed = words.length

function nextWord(): number {
  if (wordsUsed === words.length) {
    getRandomValues(words)
    wordsUsed = 0
  }
  return words[wordsUsed++] as number
}

/**
 * Creates a maker of job ids: UUIDv7 (RFC 9562) in lower case, each greater as text than the one before. When the wall
 * clock steps back, the ids continue from the highest time seen and keep their order.
 *
 * @param clock whose wall clock the ids carry, in ms.
 * @param random default: the system's cryptographic source. A seeded source makes the ids of a simulation repeatable.
 */
export function createIds(clock: Pick<Clock, 'now'>, random?: Random): () => string {
  const generator = new V7Generator({
    nextUint32: random === undefined ? nextWord : () => Math.floor(random.next() * 2 ** 32),
  })
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
