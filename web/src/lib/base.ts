/** The path below which the gateway has everything, such as /drover; '' is the root. The gateway writes it to the page. */
export const base = typeof document === 'undefined' ? '' : (document.querySelector<HTMLMetaElement>('meta[name="drover-base"]')?.content ?? '')

/** below returns a path of the gateway as the browser asks for it. */
export const below = (path: string) => base + path
