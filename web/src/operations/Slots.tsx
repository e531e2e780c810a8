/** Slots shows how many slots are in use, as numbers and as a bar. */
export function Slots({ used, of }: { used: number; of: number }) {
  const share = of > 0 ? Math.min(100, (100 * used) / of) : 0
  return (
    <span className="slots" data-full={of > 0 && used >= of ? true : undefined}>
      <span>{used} of {of}</span>
      <span aria-hidden="true"><i ref={(e) => { e?.style.setProperty('width', `${share}%`) }} /></span>
    </span>
  )
}
