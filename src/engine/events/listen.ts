import { SluiceError } from '../../base/errors.ts'
import type { Logger } from '../../base/logger.ts'
import { didYouMean } from '../../base/nearest.ts'
import { checkOptions, checkText, quote, show } from '../../base/options.ts'
import { EVENT_NAMES, Events, type SluiceEvents } from './events.ts'
import type { FleetEvents } from './fleet-events.ts'
import type { FleetReader, FleetReaderOptions } from './fleet-reader.ts'

const NAMES: readonly string[] = EVENT_NAMES
const FLEET_NAMES: Readonly<Record<keyof FleetEvents, true>> = {
  'job.enqueued': true,
  'job.started': true,
  'job.completed': true,
  'job.failed': true,
  'job.retrying': true,
  'job.snoozed': true,
  'job.discarded': true,
  'job.cancelled': true,
  'job.recovered': true,
  'flow.started': true,
  'flow.completed': true,
  'flow.failed': true,
  'flow.cancelled': true,
  'events.lost': true,
}
const OF_FLEET: readonly string[] = Object.keys(FLEET_NAMES)

/** The options of `sluice.on`. */
export interface ListenOptions {
  /** Listens to the events of all processes of the store; default false: to those of this process. */
  readonly fleet?: boolean
}

/** A subscription to events of the fleet: a call ends it. */
export interface FleetListening {
  (): void
  /** Resolves once the subscription holds: from then on no event is missed. It rejects if the store refuses it, or the engine stops. */
  readonly ready: Promise<void>
}

/** Calls a listener at every event of a name, of this process or of the fleet. It returns a function that stops it. */
export interface Listen {
  <N extends keyof FleetEvents>(
    name: N,
    listener: (event: FleetEvents[N]) => void,
    options: ListenOptions & { readonly fleet: true },
  ): FleetListening
  <N extends keyof SluiceEvents>(
    name: N,
    listener: (event: SluiceEvents[N]) => void,
    options?: ListenOptions & { readonly fleet?: false },
  ): () => void
}

/** The parts of the listeners of an engine. */
export interface ListeningOptions extends Omit<FleetReaderOptions, 'events' | 'local'> {
  readonly logger: Logger
  /** False: nothing is emitted, and nothing read. */
  readonly events: boolean
  /** @throws {SluiceError} `engine.stopped` */
  readonly checkOpen: (what: string) => void
}

/** The listeners of an engine, to the events of its process and to those of the fleet. */
export class Listening {
  /** The events of this process. */
  readonly events: Events
  readonly #fleet: Events<FleetEvents>
  readonly #options: ListeningOptions
  #listeners = 0
  #reader: Promise<FleetReader> | null = null
  /** The one at work, and those that are about to end. */
  readonly #readers = new Set<Promise<FleetReader>>()
  #loading = 0

  constructor(options: ListeningOptions) {
    this.#options = options
    const onThrow = (error: unknown, name: string): void =>
      options.logger.error({ err: error }, `a listener of ${name} threw`)
    this.events = new Events(onThrow, options.events)
    this.#fleet = new Events(onThrow, options.events)
  }

  /** True while the code of a reader is loaded; a manual clock waits for it. */
  get isLoading(): boolean {
    return this.#loading > 0
  }

  readonly on: Listen = ((...given: Parameters<Listening['listen']>) => this.listen(...given)) as Listen

  /** The same for any name. */
  listen(
    name: string,
    listener: (event: unknown) => void,
    options: ListenOptions = {},
    ...rest: readonly unknown[]
  ): FleetListening | (() => void) {
    if (!checkListening(name, listener, options, rest)) return this.events.on(name as keyof SluiceEvents, listener)
    this.#options.checkOpen('listened to')
    const off = this.#fleet.on(name as keyof FleetEvents, listener)
    return this.#options.events ? this.#follow(off) : Object.assign(off, { ready: Promise.resolve() })
  }

  /** Delivers what has happened until now, and ends all subscriptions to the fleet. */
  async stop(): Promise<void> {
    await Promise.all([...this.#readers].map(async (reader) => (await reader).stop()))
  }

  #follow(off: () => void): FleetListening {
    this.#listeners++
    const reader = (this.#reader ??= this.#begin())
    let isOn = true
    const end = (): void => {
      if (!isOn) return
      isOn = false
      off()
      if (--this.#listeners > 0) return
      this.#reader = null
      void reader.then((each) => each.stop())
    }
    const ready = reader.then((each) => each.ready)
    ready.catch(() => undefined)
    return Object.assign(end, { ready })
  }

  /** Its code is loaded at the first use. */
  async #load(): Promise<FleetReader> {
    this.#loading++
    try {
      const { FleetReader: Loaded } = await import('./fleet-reader.ts')
      return new Loaded({ ...this.#options, local: this.events, events: this.#fleet })
    } finally {
      this.#loading--
    }
  }

  #begin(): Promise<FleetReader> {
    const reader = this.#load()
    this.#readers.add(reader)
    void reader.then(async ({ ended }) => ended).then(() => this.#readers.delete(reader))
    return reader
  }
}

/** Checks the arguments of `sluice.on`. Returns whether it listens to the fleet. @throws {SluiceError} `option.invalid` */
function checkListening(name: string, listener: unknown, options: ListenOptions, rest: readonly unknown[]): boolean {
  checkText(name, 'The name of an event')
  if (!NAMES.includes(name)) {
    const whole = NAMES.find((each) => each.endsWith(`.${name}`))
    const hint = didYouMean(name, NAMES, whole)
    throw new SluiceError(
      'option.invalid',
      `The event ${quote(name)} does not exist${hint}Expected ${NAMES.join(', ')}.`,
    )
  }
  if (typeof listener !== 'function')
    throw new SluiceError(
      'option.invalid',
      `The listener of ${name} is invalid: ${show(listener)}. Expected a function.`,
    )
  if (rest.some((value) => value !== undefined))
    throw new SluiceError(
      'option.invalid',
      `An argument of on is invalid: ${show(rest.find((value) => value !== undefined))}. Expected a name, a listener and options.`,
    )
  checkOptions(options, ['fleet'], 'on')
  const { fleet = false } = options
  if (typeof fleet !== 'boolean')
    throw new SluiceError('option.invalid', `The option fleet of on is invalid: ${show(fleet)}. Expected a boolean.`)
  if (fleet && !OF_FLEET.includes(name))
    throw new SluiceError(
      'option.invalid',
      `The event ${name} cannot be listened to in the fleet: it does not follow from what is stored. Listen in each process, or to one of ${OF_FLEET.join(', ')}.`,
    )
  return fleet
}
