import keras


def make_model():
    return keras.Sequential([keras.Input((12,)), keras.layers.Dense(40), keras.layers.Dense(3)])
