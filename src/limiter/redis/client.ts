import { createHash } from 'node:crypto'
import { SluiceError } from '../../base/errors.ts'
import { show } from '../../base/options.ts'

/**
 * A connection to Redis: of the package `redis` a client, a cluster or a sentinel; of `ioredis` a client, also to a
 * sentinel, or a cluster.
 */
export type RedisClient =
  | { sendCommand(args: string[]): Promise<unknown> }
  | {
      readonly masters: unknown
      sendCommand(firstKey: string | undefined, isReadonly: boolean | undefined, args: string[]): Promise<unknown>
    }
  | {
      getMasterNode(): unknown
      sendCommand(isReadonly: boolean | undefined, args: string[]): Promise<unknown>
    }
  | { call(command: string, ...args: string[]): Promise<unknown> }

/** A script that is run by its hash. */
export interface Script {
  readonly text: string
  readonly hash: string
}

/** A script by its text. */
export function scriptOf(text: string): Script {
  return { text, hash: createHash('sha1').update(text).digest('hex') }
}

/** Runs commands and scripts on a connection. */
export class RedisScripts {
  readonly #send: (args: string[]) => Promise<unknown>

  /** @throws {SluiceError} `option.invalid` */
  constructor(client: RedisClient) {
    // Clients of ioredis have a sendCommand too, which takes no list.
    if ('call' in client && typeof client.call === 'function')
      this.#send = async ([command = '', ...args]) => client.call(command, ...args)
    else if ('masters' in client) this.#send = async (args) => client.sendCommand(firstKeyOf(args), false, args)
    else if ('getMasterNode' in client) this.#send = async (args) => client.sendCommand(false, args)
    else if ('sendCommand' in client && typeof client.sendCommand === 'function')
      this.#send = async (args) => client.sendCommand(args)
    else
      throw new SluiceError(
        'option.invalid',
        'The client of redisBackend is invalid. Expected one of the package redis or ioredis, connected.',
      )
  }

  command(...args: string[]): Promise<unknown> {
    return this.#sent(args)
  }

  /** Runs a script. A server that has lost it gets it again. */
  async run({ text, hash }: Script, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    const rest = [String(keys.length), ...keys, ...args]
    try {
      return await this.#sent(['EVALSHA', hash, ...rest])
    } catch (error) {
      if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error
      return this.#sent(['EVAL', text, ...rest])
    }
  }

  async #sent(args: string[]): Promise<unknown> {
    try {
      return await this.#send(args)
    } catch (error) {
      if (!(error instanceof Error) || !error.message.startsWith('MOVED ')) throw error
      throw new SluiceError(
        'limiter.url.invalid',
        'The Redis of the limiter is one node of a cluster. Name the cluster as redis+cluster://host:port, or give redisBackend a client of the cluster.',
        { cause: error },
      )
    }
  }
}

/** All keys of a command are in one slot, so the first names it. */
function firstKeyOf([command, ...args]: readonly string[]): string | undefined {
  return command === 'EVALSHA' || command === 'EVAL' ? args[2] : args[0]
}

/** The list that a script answers. An answer of another shape is none: nothing may be granted by a guess. */
export function listOf(answer: unknown, length?: number): readonly unknown[] {
  if (Array.isArray(answer) && (length ?? answer.length) === answer.length) return answer as readonly unknown[]
  throw misread(answer)
}

/** The whole number that a script answers. */
export function wholeOf(answer: unknown): number {
  if (typeof answer === 'number' && Number.isSafeInteger(answer)) return answer
  throw misread(answer)
}

/** The text that Redis keeps; null: there is none. */
export function textOf(answer: unknown): string | null {
  if (answer === null || typeof answer === 'string') return answer
  if (answer instanceof Uint8Array) return Buffer.from(answer).toString()
  throw misread(answer)
}

/** The failure of a call that was answered in another shape. */
export function misread(answer: unknown): Error {
  return new Error(
    `Redis answered ${show(answer)} to a script that gives no such answer. Use a client that does not answer numbers as texts.`,
  )
}
