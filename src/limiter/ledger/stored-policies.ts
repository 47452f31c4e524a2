import type { Timeline } from '../../policy/limits/timeline.ts'
import type { ChangeRequest } from '../contract/limiter.ts'
import { changeEvent, endEvents, type LimitEvent, UNDEFINED } from './changes.ts'

/** How often a change is tried again when another process changed a limit meanwhile. */
const TRIES = 50

/** Events to add, by the name of their limit. */
export type AddedEvents = readonly (readonly [string, readonly LimitEvent[]])[]

/** The limits of a namespace at a server, as they were read last. Each kind of server says how it keeps them. */
export abstract class StoredPolicies {
  protected timelines: Map<string, Timeline> = new Map()

  /** Reads the limits again. */
  abstract read(): Promise<void>
  /** Adds events to what was read. False: another process has changed a limit since then, and nothing is written. */
  protected abstract write(added: AddedEvents): Promise<boolean>

  timeline(limit: string): Timeline {
    return this.timelines.get(limit) ?? UNDEFINED
  }

  /**
   * Adds changes of limits. It returns the names of the limits that changed.
   * @param decide the changes, given the present limits; it may be asked again
   */
  async change(decide: () => ReadonlyMap<string, LimitEvent>): Promise<readonly string[]> {
    for (let tries = 0; tries < TRIES; tries++) {
      await this.read()
      const changes = decide()
      if (changes.size === 0) return []
      if (await this.write([...changes].map(([name, event]) => [name, [event]]))) return [...changes.keys()]
    }
    throw new Error('the limits are changed by others all the time')
  }

  /** Begins or ends an override or a pause. False: there was none to end. */
  async override(request: ChangeRequest, nowUs: number): Promise<boolean> {
    const { limit } = request
    await this.read()
    await this.endOverdue([limit], nowUs)
    const changed = await this.change(() => {
      const event = changeEvent(this.timeline(limit), request, nowUs)
      return new Map(event ? [[limit, event]] : [])
    })
    return changed.length > 0
  }

  /** Writes the ends of the overrides and pauses of these limits that are over. True: there were some. */
  async endOverdue(limits: readonly string[], nowUs: number): Promise<boolean> {
    const ends = [...new Set(limits)]
      .map((name) => [name, endEvents(this.timeline(name), nowUs)] as const)
      .filter(([, events]) => events.length > 0)
    if (ends.length === 0) return false
    await this.write(ends)
    await this.read()
    return true
  }
}
