import { describe, expect, test } from 'vitest'
import { PushGate } from '../../src/http/push-gate.ts'

/** Requests that end when they are told to. */
class Requests {
  readonly begun: number[] = []
  readonly #ends = new Map<number, (error?: Error) => void>()

  run(n: number): () => Promise<void> {
    return () => {
      this.begun.push(n)
      return new Promise((resolve, reject) => this.#ends.set(n, (error) => (error ? reject(error) : resolve())))
    }
  }

  async end(n: number, error?: Error): Promise<void> {
    this.#ends.get(n)?.(error)
    await new Promise((resolve) => setImmediate(resolve))
  }
}

const upTo = (n: number): number[] => Array.from({ length: n }, (_, i) => i)

describe('pushes', () => {
  test('beside a worker’s request wait beyond a bound, and go on in order as others end or fail', async () => {
    const gate = new PushGate()
    const requests = new Requests()
    const work = gate.work(requests.run(-1))
    const pushes = upTo(35).map((n) => gate.push(requests.run(n)).catch(() => undefined))
    expect(requests.begun).toEqual([-1, ...upTo(32)])
    await requests.end(5)
    await requests.end(6, new Error('refused'))
    expect(requests.begun).toEqual([-1, ...upTo(34)])
    await requests.end(-1)
    expect(requests.begun).toEqual([-1, ...upTo(35)])
    for (const n of upTo(35)) await requests.end(n)
    await Promise.all([work, ...pushes])
  })

  test('wait for nothing where no worker asks', async () => {
    const gate = new PushGate()
    const requests = new Requests()
    const pushes = upTo(100).map((n) => gate.push(requests.run(n)))
    expect(requests.begun).toEqual(upTo(100))
    for (const n of upTo(100)) await requests.end(n)
    await Promise.all(pushes)
  })
})
