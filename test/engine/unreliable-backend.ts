import { MemoryBackend } from '../../src/limiter/memory/memory.ts'

/** A backend that a test can take away. */
export class UnreliableBackend extends MemoryBackend {
  override readonly isLocal = false as never
  isDown = false
  /** It only answers what it need not write. */
  isFull = false
  /** It fails calls of more requests. */
  most: number = Infinity

  override define(...args: Parameters<MemoryBackend['define']>): ReturnType<MemoryBackend['define']> {
    return this.isDown ? Promise.reject(new Error('connection refused')) : super.define(...args)
  }

  override acquire(...args: Parameters<MemoryBackend['acquire']>): ReturnType<MemoryBackend['acquire']> {
    if (args[0].length > this.most) return Promise.reject(new Error('no answer in time'))
    return this.isDown
      ? Promise.reject(new Error('connection refused'))
      : this.#unlessFull(() => super.acquire(...args))
  }

  override confirm(...args: Parameters<MemoryBackend['confirm']>): ReturnType<MemoryBackend['confirm']> {
    return this.isDown ? Promise.reject(new Error('connection refused')) : super.confirm(...args)
  }

  ready(): Promise<void> {
    return this.isDown ? Promise.reject(new Error('connection refused')) : this.#unlessFull(async () => undefined)
  }

  #unlessFull<T>(work: () => Promise<T>): Promise<T> {
    return this.isFull ? Promise.reject(new Error('OOM')) : work()
  }
}
