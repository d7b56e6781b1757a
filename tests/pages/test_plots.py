"""What the figures of several pages draw alike."""

import matplotlib.pyplot as plt

from companion.pages.plots import letters


def test_letters_stand_before_titles_and_alone_where_there_is_none():
    figure, axes = plt.subplots(1, 3)
    axes[0].set_title("on the way")
    axes[2].set_title("two\nlines", fontsize=9, pad=24)
    letters(*axes)
    assert [ax.get_title() for ax in axes] == ["(a) on the way", "(b)", "(c) two\nlines"]
    assert axes[2].title.get_fontsize() == 9  # a title keeps its look
    plt.close(figure)
